// A policy's folder as Hugging Face tools write and read it: a whole model, or a LoRA adapter that names its base.

import { copyFileSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, isAbsolute, join } from 'node:path'

import { type Json, readJson } from './hugging_face.ts'
import { mergeAdapter, readAdapterConfig } from './lora.ts'
import { type ModelConfig, parseModelConfig, readModelConfig, tensorShapes } from './model_config.ts'
import { readSafetensors, type Weight, writeSafetensors } from './safetensors.ts'
import { uniforms } from './sampling.ts'

export interface Checkpoint {
  readonly config: ModelConfig
  /** By Hugging Face name, exactly those that `tensorShapes(config)` lists; matrices are [out, in]. */
  readonly weights: ReadonlyMap<string, Weight>
  /** Where config.json and the tokenizer are: the folder itself, or the adapter's base. */
  readonly base: string
}

/** Reads a model, or an adapter merged into its base. Throws, naming file and tensor, when something is missing, left over, cut off, of another shape or not finite. */
export function readCheckpoint(folder: string): Checkpoint {
  if (!existsSync(folder)) throw new Error(`${folder} does not exist`)
  const adapter = readAdapterConfig(folder)
  if (adapter) {
    const base = readCheckpoint(isAbsolute(adapter.base) ? adapter.base : join(folder, adapter.base))
    return { ...base, weights: mergeAdapter(base.weights, adapter, readSafetensors(adapter.file), adapter.file) }
  }
  const config = readModelConfig(folder)
  return { config, weights: checked(readWeights(folder), config, folder), base: folder }
}

/** One model.safetensors, or the shards that model.safetensors.index.json lists. */
function readWeights(folder: string): Map<string, Weight> {
  const single = join(folder, 'model.safetensors')
  if (existsSync(single)) return readSafetensors(single)
  const indexFile = join(folder, 'model.safetensors.index.json')
  const index = readJson(indexFile)
  if (!index) throw new Error(`${folder} has neither model.safetensors nor model.safetensors.index.json`)
  const listed = index['weight_map'] as Readonly<Record<string, string>>
  const weights = new Map<string, Weight>()
  for (const shard of new Set(Object.values(listed))) {
    const file = join(folder, basename(shard))
    if (!existsSync(file)) throw new Error(`${file} does not exist, but ${indexFile} lists it`)
    for (const [name, weight] of readSafetensors(file)) weights.set(name, weight)
  }
  return weights
}

function checked(weights: Map<string, Weight>, config: ModelConfig, folder: string): Map<string, Weight> {
  // A tied output matrix is sometimes written a second time.
  if (config.tied) weights.delete('lm_head.weight')
  const shapes = tensorShapes(config)
  for (const [name, shape] of shapes) {
    const found = weights.get(name)?.shape
    if (!found) throw new Error(`${folder}: tensor ${name} is missing`)
    if (found.join() !== shape.join())
      throw new Error(`${folder}: tensor ${name} must be [${shape.join(', ')}] (got [${found.join(', ')}])`)
  }
  const extra = [...weights.keys()].filter((name) => !shapes.has(name))
  if (extra.length > 0) throw new Error(`${folder}: ${extra.length} tensors that the model has no use for, ${extra[0]} among them`)
  return weights
}

/** What lies beside the weights of a model and must travel with them. */
const COMPANIONS =
  /^(generation_config|tokenizer|tokenizer_config|special_tokens_map|vocab|merges|added_tokens)\.(json|txt)$|^chat_template\.jinja$/

/** Writes weights into `folder`, with the companions of `base`. Each file is whole or absent; the weights come last. */
export function writeCheckpoint(folder: string, base: string, weights: ReadonlyMap<string, Weight>, dtype: 'F32' | 'BF16' = 'F32'): void {
  mkdirSync(folder, { recursive: true })
  for (const file of readdirSync(base)) if (COMPANIONS.test(file)) copyFileSync(join(base, file), join(folder, file))
  const config = readJson(join(base, 'config.json'))!
  writeFileSync(join(folder, 'config.json'), `${JSON.stringify(withType(config, dtype), null, 2)}\n`)
  writeSafetensors(join(folder, 'model.safetensors'), weights, dtype)
}

/** transformers loads weights as the type that config.json names, whatever they are; releases before 5 spell it `torch_dtype`. */
function withType(config: Json, dtype: 'F32' | 'BF16'): Json {
  const type = dtype === 'F32' ? 'float32' : 'bfloat16'
  const named = ['dtype', 'torch_dtype'].filter((key) => key in config)
  return { ...config, ...Object.fromEntries(named.map((key) => [key, type])) }
}

/** The keys of config.json that a new, small model needs; the others get Llama's usual values. */
export interface NewModel {
  readonly vocab_size: number
  readonly hidden_size: number
  readonly intermediate_size: number
  readonly num_hidden_layers: number
  readonly num_attention_heads: number
  readonly num_key_value_heads?: number
  readonly max_position_embeddings: number
  readonly tie_word_embeddings?: boolean
  /** Deviation of the random weights; models of a few dozen dimensions learn faster from more. */
  readonly initializer_range?: number
  readonly bos_token_id?: number
  readonly eos_token_id?: number
}

/** Writes config.json and random weights of a Llama of this size into `folder`: where a policy that nobody trained yet begins. */
export function initCheckpoint(folder: string, model: NewModel, seed: number): void {
  const json = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_act: 'silu',
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: true,
    initializer_range: 0.02,
    num_key_value_heads: model.num_attention_heads,
    ...model,
  }
  const config = parseModelConfig(json, join(folder, 'config.json'))
  const normal = normalNumbers(seed)
  const weights = new Map<string, Weight>()
  for (const [name, shape] of tensorShapes(config)) {
    const data = new Float32Array(shape.reduce((product, length) => product * length, 1))
    // GPT-2's: what is added to the residual stream is scaled down by the number of additions.
    const deviation = json.initializer_range / (/(o|down)_proj/.test(name) ? Math.sqrt(2 * config.layers) : 1)
    weights.set(name, { shape, data: name.endsWith('norm.weight') ? data.fill(1) : data.map(() => deviation * normal()) })
  }
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'config.json'), `${JSON.stringify(json, null, 2)}\n`)
  writeSafetensors(join(folder, 'model.safetensors'), weights)
}

/** Box-Muller. */
function normalNumbers(seed: number): () => number {
  const uniform = uniforms(seed)
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform())
}
