// Low-rank adapters as PEFT writes them: y = x·Wᵀ + (alpha / r) · (x·Aᵀ)·Bᵀ with A [r, in] and B [out, r].

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { readJson } from './hugging_face.ts'
import { type ModelConfig, tensorShapes } from './model_config.ts'
import { type Weight, writeSafetensors } from './safetensors.ts'
import { uniforms } from './sampling.ts'

export interface AdapterConfig {
  /** As written: a path, perhaps relative to the adapter's folder. */
  readonly base: string
  readonly rank: number
  readonly alpha: number
  readonly targets: readonly string[]
  /** The weights' file. */
  readonly file: string
}

const CONFIG = 'adapter_config.json'
const WEIGHTS = 'adapter_model.safetensors'
/** PEFT wraps the model in two objects. */
const PREFIX = 'base_model.model.'

/** Null where the folder is no adapter. Throws, naming file and key, for kinds of adapters that Leyden cannot run. */
export function readAdapterConfig(folder: string): AdapterConfig | null {
  const name = join(folder, CONFIG)
  const json = readJson(name)
  if (!json) return null
  const only = (key: string, wanted: string, holds: boolean) => {
    if (!holds) throw new Error(`${name}: ${key}: must be ${wanted} (got ${JSON.stringify(json[key])})`)
  }
  only('peft_type', 'LORA', json['peft_type'] === 'LORA')
  only('bias', 'none', (json['bias'] ?? 'none') === 'none')
  for (const key of ['use_dora', 'use_rslora', 'fan_in_fan_out', 'lora_bias']) only(key, 'false', !json[key])
  for (const key of ['rank_pattern', 'alpha_pattern']) only(key, 'empty', Object.keys(json[key] ?? {}).length === 0)
  only('modules_to_save', 'null', !json['modules_to_save'])
  only('target_modules', 'a list of projections', Array.isArray(json['target_modules']))
  only('base_model_name_or_path', 'the path of a folder', typeof json['base_model_name_or_path'] === 'string')
  only('r', 'above 0', json['r'] > 0)
  return {
    base: json['base_model_name_or_path'],
    rank: json['r'],
    alpha: json['lora_alpha'],
    targets: json['target_modules'],
    file: join(folder, WEIGHTS),
  }
}

/** Adapter tensors by the name of the matrix that they adapt. Throws, naming file and tensor, when one of a pair is missing or does not fit. */
export function pairAdapters(
  shapes: ReadonlyMap<string, readonly number[]>,
  rank: number,
  tensors: ReadonlyMap<string, Weight>,
  file: string,
): Map<string, { readonly a: Weight; readonly b: Weight }> {
  const pairs = new Map<string, { a: Weight; b: Weight }>()
  const get = (module: string, which: 'A' | 'B', shape: readonly number[]): Weight => {
    const name = `${PREFIX}${module}.lora_${which}.weight`
    const weight = tensors.get(name)
    if (!weight) throw new Error(`${file}: tensor ${name} is missing`)
    if (weight.shape.join() !== shape.join()) {
      throw new Error(`${file}: tensor ${name} must be [${shape.join(', ')}] (got [${weight.shape.join(', ')}])`)
    }
    return weight
  }
  for (const name of tensors.keys()) {
    const module = new RegExp(`^${PREFIX}(.*)\\.lora_[AB]\\.weight$`).exec(name)?.[1]
    const shape = module && shapes.get(`${module}.weight`)
    if (!shape) throw new Error(`${file}: tensor ${name} belongs to no matrix of the base`)
    const [out, into] = shape as [number, number]
    pairs.set(`${module}.weight`, { a: get(module, 'A', [rank, into]), b: get(module, 'B', [out, rank]) })
  }
  return pairs
}

/** New adapters, as PEFT begins them: A uniform within ±1/√in, B zero, so that nothing changes yet. Throws for a target that the model does not have. */
export function initAdapters(
  config: ModelConfig,
  { rank, targets }: Pick<AdapterConfig, 'rank' | 'targets'>,
  seed: number,
): Map<string, { readonly a: Weight; readonly b: Weight }> {
  const uniform = uniforms(seed)
  const pairs = new Map<string, { a: Weight; b: Weight }>()
  const found = new Set<string>()
  for (const [name, [out, into]] of tensorShapes(config)) {
    const target = /(\w+_proj)\.weight$/.exec(name)?.[1]
    if (!target || !targets.includes(target)) continue
    found.add(target)
    const a = Float32Array.from({ length: rank * into! }, () => (2 * uniform() - 1) / Math.sqrt(into!))
    pairs.set(name, { a: { shape: [rank, into!], data: a }, b: { shape: [out!, rank], data: new Float32Array(out! * rank) } })
  }
  const unknown = targets.find((target) => !found.has(target))
  if (unknown !== undefined || targets.length === 0) {
    throw new Error(`lora: targets: must be of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj (got ${unknown ?? 'none'})`)
  }
  return pairs
}

/** W + (alpha / r) · B·A for every adapted matrix; the base's weights are left as they are. */
export function mergeAdapter(
  base: ReadonlyMap<string, Weight>,
  { rank, alpha }: AdapterConfig,
  tensors: ReadonlyMap<string, Weight>,
  file: string,
): Map<string, Weight> {
  const shapes = new Map([...base].map(([name, { shape }]) => [name, shape]))
  const merged = new Map(base)
  for (const [name, { a, b }] of pairAdapters(shapes, rank, tensors, file)) {
    const { shape, data } = base.get(name)!
    const [out, into] = shape as [number, number]
    const sum = Float64Array.from(data)
    for (let o = 0; o < out; o++) {
      for (let r = 0; r < rank; r++) {
        const scaled = (alpha / rank) * b.data[o * rank + r]!
        for (let i = 0; i < into; i++) sum[o * into + i]! += scaled * a.data[r * into + i]!
      }
    }
    merged.set(name, { shape, data: Float32Array.from(sum) })
  }
  return merged
}

/** Writes a folder that PEFT loads. `pairs` by the name of the adapted matrix. */
export function writeAdapter(
  folder: string,
  base: string,
  { rank, alpha, targets }: Pick<AdapterConfig, 'rank' | 'alpha' | 'targets'>,
  pairs: ReadonlyMap<string, { readonly a: Weight; readonly b: Weight }>,
): void {
  mkdirSync(folder, { recursive: true })
  const config = {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: alpha,
    target_modules: targets,
    lora_dropout: 0,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
  }
  writeFileSync(join(folder, CONFIG), `${JSON.stringify(config, null, 2)}\n`)
  const tensors = new Map<string, Weight>()
  for (const [name, { a, b }] of pairs) {
    const module = PREFIX + name.slice(0, -'.weight'.length)
    tensors.set(`${module}.lora_A.weight`, a)
    tensors.set(`${module}.lora_B.weight`, b)
  }
  writeSafetensors(join(folder, WEIGHTS), tensors)
}
