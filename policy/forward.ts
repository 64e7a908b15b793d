// A Llama, Qwen2 or Qwen3 that reads one token per row, rows of many sequences at once, with the keys and values of earlier tokens in blocks.
// The same function as model.ts, which training differentiates; a test holds them together to 1e-4. It is written out in loops because a small
// policy spends its time between operations: a TensorFlow operation costs 12 to 40 us, and a token of 50,000 parameters is a hundred of them.

import { attendHead, attendPair } from './attention.ts'
import type { Checkpoint } from './checkpoint.ts'
import { BLOCK, BLOCK_BITS } from './kv_cache.ts'
import type { ModelConfig } from './model_config.ts'
import { FEWEST_ROWS, type Product, type Products } from './products.ts'

/** A token to read: R of them in a pass. */
export interface ForwardRow {
  readonly token: number
  /** Place in its sequence. All before it are in the cache, or in earlier rows of this pass. */
  readonly position: number
  /** Blocks of its sequence; the token's own keys and values are written there. */
  readonly blocks: readonly number[]
}

export interface Forward {
  readonly config: ModelConfig
  /** Reads the rows (at most `maxRows`) and gives the logits [vocabulary] of those in `wanted`, as views that the next call overwrites. */
  read(rows: readonly ForwardRow[], wanted: readonly number[]): Float32Array[]
  /** Gives its matrices' memory back. */
  close(): void
}

interface Layer {
  readonly norm1: Float32Array
  readonly norm2: Float32Array
  readonly qkv: Linear
  readonly output: Linear
  readonly gateUp: Linear
  readonly down: Linear
  readonly queryNorm: Float32Array | undefined
  readonly keyNorm: Float32Array | undefined
  /** [blocks, BLOCK, kvHeads * headWidth] */
  readonly keys: Float32Array
  readonly values: Float32Array
}

interface Linear {
  readonly product: Product
  readonly bias: Float32Array | undefined
}

/** Bytes of keys and values that one block takes. */
export const bytesPerBlock = ({ layers, kvHeads, headWidth }: ModelConfig): number => 2 * layers * kvHeads * headWidth * BLOCK * 4

export function openForward(checkpoint: Checkpoint, products: Products, blocks: number, maxRows: number): Forward {
  const opening = openingForward(checkpoint, products, blocks, maxRows)
  for (;;) {
    const { done, value } = opening.next()
    if (done) return value
  }
}

/** The same in slices: a decoder goes on between them. */
export function* openingForward(
  { config, weights }: Checkpoint,
  products: Products,
  blocks: number,
  maxRows: number,
): Generator<void, Forward> {
  const room = Math.max(maxRows, FEWEST_ROWS)
  const { hidden, heads, kvHeads, headWidth, feedForward, vocabulary, normEpsilon, frequencies } = config
  const queryWidth = heads * headWidth
  const kvWidth = kvHeads * headWidth
  const qkvWidth = queryWidth + 2 * kvWidth
  const half = headWidth / 2
  const embedding = weights.get('model.embed_tokens.weight')!.data
  const lastNorm = weights.get('model.norm.weight')!.data
  const head = yield* products.prepare(config.tied ? embedding : weights.get('lm_head.weight')!.data, vocabulary, hidden)
  const layers: Layer[] = []
  for (let layer = 0; layer < config.layers; layer++) layers.push(yield* openLayer(layer))

  // Scratch of one pass; names are what they hold, widths are per row.
  const x = new Float32Array(room * hidden)
  const normed = new Float32Array(room * hidden)
  const qkv = new Float32Array(room * qkvWidth)
  const attended = new Float32Array(room * queryWidth)
  const added = new Float32Array(room * hidden)
  const gateUp = new Float32Array(room * 2 * feedForward)
  const gated = new Float32Array(room * feedForward)
  const cosines = new Float32Array(room * half)
  const sines = new Float32Array(room * half)
  let logits = new Float32Array(0)
  let scores = new Float32Array(256)

  function* openLayer(layer: number): Generator<void, Layer> {
    const find = (name: string) => weights.get(`model.layers.${layer}.${name}`)?.data
    function* linear(out: number, into: number, ...names: string[]): Generator<void, Linear> {
      const biases = names.map((name) => find(`${name}.bias`)).filter((bias) => bias !== undefined)
      return {
        product: yield* products.prepare(joined(names.map((name) => find(`${name}.weight`)!)), out, into),
        bias: biases.length === 0 ? undefined : joined(biases),
      }
    }
    return {
      norm1: find('input_layernorm.weight')!,
      norm2: find('post_attention_layernorm.weight')!,
      qkv: yield* linear(qkvWidth, hidden, 'self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'),
      output: yield* linear(hidden, queryWidth, 'self_attn.o_proj'),
      gateUp: yield* linear(2 * feedForward, hidden, 'mlp.gate_proj', 'mlp.up_proj'),
      down: yield* linear(hidden, feedForward, 'mlp.down_proj'),
      queryNorm: find('self_attn.q_norm.weight'),
      keyNorm: find('self_attn.k_norm.weight'),
      keys: new Float32Array(blocks * BLOCK * kvWidth),
      values: new Float32Array(blocks * BLOCK * kvWidth),
    }
  }

  function apply({ product, bias }: Linear, from: Float32Array, rows: number, to: Float32Array): void {
    product.multiply(from, rows, to)
    if (!bias) return
    for (let r = 0; r < rows; r++) for (let i = 0; i < bias.length; i++) to[r * bias.length + i]! += bias[i]!
  }

  /** Rotates pairs (i, i + half) of each head. */
  function rotate(at: number, row: number): void {
    for (let i = 0; i < half; i++) {
      const [cos, sin] = [cosines[row * half + i]!, sines[row * half + i]!]
      const [a, b] = [qkv[at + i]!, qkv[at + half + i]!]
      qkv[at + i] = a * cos - b * sin
      qkv[at + half + i] = b * cos + a * sin
    }
  }

  /** Normalises and rotates queries and keys, and puts keys and values into the cache. */
  function place({ queryNorm, keyNorm, keys, values }: Layer, rows: readonly ForwardRow[]): void {
    rows.forEach(({ position, blocks }, r) => {
      for (let h = 0; h < heads + kvHeads; h++) {
        const at = r * qkvWidth + h * headWidth
        const norm = h < heads ? queryNorm : keyNorm
        if (norm) rmsNorm(qkv, at, norm, normEpsilon, qkv, at)
        rotate(at, r)
      }
      const to = slot(blocks, position) * kvWidth
      const key = r * qkvWidth + queryWidth
      keys.set(qkv.subarray(key, key + kvWidth), to)
      values.set(qkv.subarray(key + kvWidth, key + 2 * kvWidth), to)
    })
  }

  function attend({ keys, values }: Layer, { position, blocks }: ForwardRow, r: number): void {
    const sharing = heads / kvHeads
    for (let h = 0; h < heads;) {
      const head = { keys, values, kvWidth, offset: Math.floor(h / sharing) * headWidth, width: headWidth }
      const isPair = (h % sharing) + 1 < sharing
      const attendSome = isPair ? attendPair : attendHead
      attendSome(head, blocks, position + 1, qkv, r * qkvWidth + h * headWidth, scores, attended, r * queryWidth + h * headWidth)
      h += isPair ? 2 : 1
    }
  }

  /** SwiGLU: silu(gate) * up. */
  function gate(rows: number): void {
    for (let r = 0; r < rows; r++) {
      const from = r * 2 * feedForward
      for (let i = 0; i < feedForward; i++) {
        const g = gateUp[from + i]!
        gated[r * feedForward + i] = (g / (1 + Math.exp(-g))) * gateUp[from + feedForward + i]!
      }
    }
  }

  function addTo(rows: number): void {
    for (let i = 0; i < rows * hidden; i++) x[i]! += added[i]!
  }

  function normRows(norm: Float32Array, rows: number): void {
    for (let r = 0; r < rows; r++) rmsNorm(x, r * hidden, norm, normEpsilon, normed, r * hidden)
  }

  function setUp(rows: readonly ForwardRow[]): void {
    rows.forEach(({ token, position }, r) => {
      x.set(embedding.subarray(token * hidden, (token + 1) * hidden), r * hidden)
      for (let i = 0; i < half; i++) {
        cosines[r * half + i] = Math.cos(position * frequencies[i]!)
        sines[r * half + i] = Math.sin(position * frequencies[i]!)
      }
      if (2 * (position + 1) > scores.length) scores = new Float32Array(4 * (position + 1))
    })
  }

  return {
    config,
    read(rows, wanted) {
      const count = rows.length
      setUp(rows)
      for (const layer of layers) {
        normRows(layer.norm1, count)
        apply(layer.qkv, normed, count, qkv)
        place(layer, rows)
        rows.forEach((row, r) => attend(layer, row, r))
        apply(layer.output, attended, count, added)
        addTo(count)
        normRows(layer.norm2, count)
        apply(layer.gateUp, normed, count, gateUp)
        gate(count)
        apply(layer.down, gated, count, added)
        addTo(count)
      }
      wanted.forEach((row, i) => rmsNorm(x, row * hidden, lastNorm, normEpsilon, normed, i * hidden))
      const logitRows = Math.max(wanted.length, FEWEST_ROWS)
      if (logits.length < logitRows * vocabulary) logits = new Float32Array(logitRows * vocabulary)
      head.multiply(normed, wanted.length, logits)
      return wanted.map((_, i) => logits.subarray(i * vocabulary, (i + 1) * vocabulary))
    },
    close() {
      head.free()
      for (const { qkv, output, gateUp, down } of layers) for (const { product } of [qkv, output, gateUp, down]) product.free()
    },
  }
}

function rmsNorm(from: Float32Array, at: number, norm: Float32Array, epsilon: number, to: Float32Array, target: number): void {
  const width = norm.length
  let squares = 0
  for (let i = 0; i < width; i++) squares += from[at + i]! * from[at + i]!
  const scale = 1 / Math.sqrt(squares / width + epsilon)
  for (let i = 0; i < width; i++) to[target + i] = from[at + i]! * scale * norm[i]!
}

/** Place of a sequence's token among all that the cache can hold. */
const slot = (blocks: readonly number[], position: number): number => blocks[position >> BLOCK_BITS]! * BLOCK + (position & (BLOCK - 1))

/** Rows of several matrices, or of biases, one after the other. */
function joined(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0]!
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
