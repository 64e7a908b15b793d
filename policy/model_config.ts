// What config.json of a Hugging Face folder says about a decoder of the Llama, Qwen2 or Qwen3 family, in both spellings that transformers has used.

import { type Json, readJson } from './hugging_face.ts'

export interface ModelConfig {
  readonly vocabulary: number
  /** D: the width of the residual stream. */
  readonly hidden: number
  readonly layers: number
  readonly heads: number
  /** Key-value heads: each serves heads / kvHeads query heads. */
  readonly kvHeads: number
  /** Width of one head; not always hidden / heads. */
  readonly headWidth: number
  /** Width inside of the feed-forward part. */
  readonly feedForward: number
  /** Most tokens of a sequence. */
  readonly context: number
  readonly normEpsilon: number
  /** [headWidth / 2] Radians per position of each pair of a head's rotary embedding. */
  readonly frequencies: Float64Array
  /** Query, key and value projections have a bias; the output projection has one too where `outputBias`. */
  readonly qkvBias: boolean
  readonly outputBias: boolean
  readonly feedForwardBias: boolean
  /** Queries and keys are normalised per head before they are rotated. */
  readonly qkNorm: boolean
  /** The output matrix is the embedding. */
  readonly tied: boolean
}

const ARCHITECTURES = ['LlamaForCausalLM', 'Qwen2ForCausalLM', 'Qwen3ForCausalLM']

/** Reads `folder`/config.json. Throws, naming the file and the key, when it is missing, incomplete or of a model that Leyden cannot run. */
export function readModelConfig(folder: string): ModelConfig {
  const file = `${folder}/config.json`
  const json = readJson(file)
  if (!json) throw new Error(`${file} does not exist: not a folder of a Hugging Face model`)
  return parseModelConfig(json, file)
}

export function parseModelConfig(json: Json, file: string): ModelConfig {
  const architecture = String(json['architectures']?.[0] ?? json['model_type'] ?? 'nothing')
  if (!ARCHITECTURES.includes(architecture)) {
    throw new Error(`${file}: architectures: must be one of ${ARCHITECTURES.join(', ')} (got ${architecture})`)
  }
  const count = (key: string, otherwise?: number): number => {
    const value: unknown = json[key] ?? otherwise
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 1)
      throw new Error(`${file}: ${key}: must be a whole number above 0 (got ${value})`)
    return value
  }
  const only = (key: string, value: unknown) => {
    if (json[key] !== undefined && json[key] !== null && json[key] !== value)
      throw new Error(`${file}: ${key}: must be ${value} (got ${json[key]})`)
  }
  only('hidden_act', 'silu')
  only('use_sliding_window', false)
  const qwen2 = architecture === 'Qwen2ForCausalLM'
  const heads = count('num_attention_heads')
  const kvHeads = count('num_key_value_heads', heads)
  if (heads % kvHeads !== 0)
    throw new Error(`${file}: num_attention_heads: must be a multiple of num_key_value_heads (got ${heads} and ${kvHeads})`)
  const hidden = count('hidden_size')
  const headWidth = count('head_dim', hidden / heads)
  if (headWidth % 2 !== 0) throw new Error(`${file}: head_dim: must be even (got ${headWidth})`)
  return {
    vocabulary: count('vocab_size'),
    hidden,
    layers: count('num_hidden_layers'),
    heads,
    kvHeads,
    headWidth,
    feedForward: count('intermediate_size'),
    context: count('max_position_embeddings', 2048),
    normEpsilon: Number(json['rms_norm_eps'] ?? 1e-6),
    frequencies: rotaryFrequencies(headWidth, json, file),
    qkvBias: qwen2 || json['attention_bias'] === true,
    outputBias: !qwen2 && json['attention_bias'] === true,
    feedForwardBias: json['mlp_bias'] === true,
    qkNorm: architecture === 'Qwen3ForCausalLM',
    tied: json['tie_word_embeddings'] ?? false,
  }
}

/** transformers 5 writes `rope_parameters`; before, `rope_theta` stood by itself and `rope_scaling` beside it. */
function rotaryFrequencies(headWidth: number, json: Json, file: string): Float64Array {
  const key = json['rope_parameters'] ? 'rope_parameters' : 'rope_scaling'
  const written: Json = json[key] ?? {}
  const type: unknown = written['rope_type'] ?? written['type'] ?? 'default'
  if (type !== 'default' && type !== 'llama3') throw new Error(`${file}: ${key}: rope_type must be default or llama3 (got ${String(type)})`)
  const theta = Number(written['rope_theta'] ?? json['rope_theta'] ?? 10_000)
  const frequencies = Float64Array.from({ length: headWidth / 2 }, (_, i) => theta ** ((-2 * i) / headWidth))
  return type === 'default' ? frequencies : stretched(frequencies, written, `${file}: ${key}`)
}

/** Llama 3's way to a longer context: pairs that turn often within the original context stay, those that turn seldom are slowed down. */
function stretched(frequencies: Float64Array, written: Json, place: string): Float64Array {
  const number = (name: string): number => {
    const value: unknown = written[name]
    if (typeof value !== 'number') throw new Error(`${place}: ${name} must be a number (got ${String(value)})`)
    return value
  }
  const [factor, low, high, context] = ['factor', 'low_freq_factor', 'high_freq_factor', 'original_max_position_embeddings'].map(number)
  return frequencies.map((frequency) => {
    const turns = (context! * frequency) / (2 * Math.PI)
    const kept = Math.min(1, Math.max(0, (turns - low!) / (high! - low!)))
    return frequency * (kept + (1 - kept) / factor!)
  })
}

/** Shape of every tensor of the model by its Hugging Face name, as files hold it: matrices are [out, in]. */
export function tensorShapes(config: ModelConfig): Map<string, readonly number[]> {
  const { vocabulary, hidden, layers, heads, kvHeads, headWidth, feedForward } = config
  const shapes = new Map<string, readonly number[]>([['model.embed_tokens.weight', [vocabulary, hidden]]])
  for (let layer = 0; layer < layers; layer++) {
    const put = (name: string, ...shape: number[]) => shapes.set(`model.layers.${layer}.${name}`, shape)
    const linear = (name: string, out: number, into: number, bias: boolean) => {
      put(`${name}.weight`, out, into)
      if (bias) put(`${name}.bias`, out)
    }
    put('input_layernorm.weight', hidden)
    linear('self_attn.q_proj', heads * headWidth, hidden, config.qkvBias)
    linear('self_attn.k_proj', kvHeads * headWidth, hidden, config.qkvBias)
    linear('self_attn.v_proj', kvHeads * headWidth, hidden, config.qkvBias)
    linear('self_attn.o_proj', hidden, heads * headWidth, config.outputBias)
    if (config.qkNorm) {
      put('self_attn.q_norm.weight', headWidth)
      put('self_attn.k_norm.weight', headWidth)
    }
    put('post_attention_layernorm.weight', hidden)
    linear('mlp.gate_proj', feedForward, hidden, config.feedForwardBias)
    linear('mlp.up_proj', feedForward, hidden, config.feedForwardBias)
    linear('mlp.down_proj', hidden, feedForward, config.feedForwardBias)
  }
  shapes.set('model.norm.weight', [hidden])
  if (!config.tied) shapes.set('lm_head.weight', [vocabulary, hidden])
  return shapes
}
