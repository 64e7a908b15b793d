// Makes a base policy: a small Llama from random weights, taught by imitation of flawed demonstrations (supervised fine-tuning). It stands for
// a pretrained model: it has the language, does the right thing now and then, and its likeliest answer is often wrong.

import { initCheckpoint } from '../policy/checkpoint.ts'
import { openLearner } from '../policy/learner.ts'
import type { Row } from '../policy/learning.ts'
import { openTokenizer } from '../policy/tokenizer.ts'
import type { Demonstration } from './demonstration.ts'
import { END, writeLanguage, type Language } from './language.ts'
import { seeded, type Random } from './random.ts'

export interface Making {
  readonly language: Language
  demonstration(random: Random): Demonstration
  readonly hidden: number
  readonly intermediate: number
  readonly layers: number
  readonly context: number
  /** Deviation of the random weights that it begins with. */
  readonly initializer_range?: number
  readonly tie_word_embeddings?: boolean
  readonly steps: number
  readonly seed: number
}

const HEADS = 4
const ROWS_PER_STEP = 32
const LEARNING_RATE = 3e-3
const WARMUP_STEPS = 100
const LEAST_RATE = 0.05
const TOLD_EVERY = 100

/** Writes a Hugging Face folder. The same `making` gives the same policy. */
export async function makeBase(
  folder: string,
  { language, demonstration, steps, seed, hidden, intermediate, layers, context, ...model }: Making,
): Promise<void> {
  initCheckpoint(
    folder,
    {
      vocab_size: writeLanguage(folder, language),
      hidden_size: hidden,
      intermediate_size: intermediate,
      num_hidden_layers: layers,
      num_attention_heads: HEADS,
      max_position_embeddings: context,
      eos_token_id: END,
      ...model,
    },
    seed,
  )
  const tokenizer = await openTokenizer(folder)
  const learner = await openLearner({
    base: folder,
    backend: 'wasm',
    kernels: 'auto',
    value_head: false,
    optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, clip_norm: 1 },
    tokens_per_pass: 4096,
    seed,
  })
  const random = seeded(seed)
  let loss = 0
  for (let step = 0; step < steps; step++) {
    const rows = Array.from({ length: ROWS_PER_STEP }, (): Row => {
      const { messages, reply } = demonstration(random)
      const prompt = tokenizer.chat(messages, { add_generation_prompt: true }).ids
      const tokens = Int32Array.from([...prompt, ...tokenizer.encode(reply), END])
      return { tokens, scored: new Uint8Array(tokens.length).fill(1, prompt.length), temperature: 1 }
    })
    await learner.accumulate(rows, ({ logprobs }) => {
      loss += -logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length
      return { logprobs: new Float32Array(logprobs.length).fill(-1 / logprobs.length) }
    })
    const left = 1 - step / steps
    await learner.step(LEARNING_RATE * Math.min(1, (step + 1) / WARMUP_STEPS) * (LEAST_RATE + (1 - LEAST_RATE) * left))
    if ((step + 1) % TOLD_EVERY === 0) {
      console.log(`step ${step + 1} of ${steps}: loss ${(loss / TOLD_EVERY).toFixed(3)}`)
      loss = 0
    }
  }
  if (tokenizer.unknown() > 0) throw new Error(`the language lacks ${tokenizer.unknown()} of the words in the demonstrations`)
  await learner.save(folder)
  learner.close()
}
