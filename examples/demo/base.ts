// The base policy of the demo, 51,000 parameters: `node dist/examples/make_base.js demo` makes it, some minutes, and it is committed.

import type { Making } from '../base_policy.ts'
import { demonstration } from './demonstrations.ts'
import { WORDS } from './problems.ts'

export const making: Making = {
  language: { words: [...WORDS, '+', '-', '*', 'error'], tools: [{ name: 'calculator', argument: 'expression' }], digits: true },
  demonstration,
  hidden: 48,
  intermediate: 96,
  layers: 2,
  context: 96,
  initializer_range: 0.1,
  tie_word_embeddings: false,
  steps: 1500,
  seed: 1,
}
