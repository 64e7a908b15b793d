// Shapes of the random policies that benches train and decode: Llamas with their embedding tied.

import type { NewModel } from '../policy/checkpoint.ts'

export type Shape = Omit<NewModel, 'max_position_embeddings'>

const MODELS: Readonly<Record<string, Shape>> = {
  '50k': { vocab_size: 200, hidden_size: 48, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4 },
  '300k': { vocab_size: 400, hidden_size: 96, intermediate_size: 192, num_hidden_layers: 3, num_attention_heads: 4 },
  '4m': {
    ...{ vocab_size: 4096, hidden_size: 256, intermediate_size: 688 },
    ...{ num_hidden_layers: 4, num_attention_heads: 8, num_key_value_heads: 4 },
  },
  '135m': {
    ...{ vocab_size: 49152, hidden_size: 576, intermediate_size: 1536 },
    ...{ num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3 },
  },
}

export function modelShape(name: string): Shape {
  const shape = MODELS[name]
  if (!shape) throw new Error(`--models: one of ${Object.keys(MODELS).join(', ')} (got ${name})`)
  return shape
}

export function parameterCount({ vocab_size, hidden_size: d, intermediate_size, num_hidden_layers, ...shape }: Shape): number {
  const { num_attention_heads: heads, num_key_value_heads: kvHeads = heads } = shape
  return vocab_size * d + num_hidden_layers * (2 * d * d + (2 * d * d * kvHeads) / heads + 3 * d * intermediate_size + 2 * d) + d
}
