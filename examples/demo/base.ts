// The base policy of the demo, 53,000 parameters: `node dist/examples/make_base.js demo` makes it, some minutes, and it is committed.

import type { Making } from '../base_policy.ts'
import { demonstration } from './demonstrations.ts'
import { WORDS } from './problems.ts'

export const making: Making = {
  language: { words: [...WORDS, '+', '-', '*', 'error'], tools: [{ name: 'calculator', argument: 'expression' }], digits: true },
  demonstration,
  hidden: 48,
  intermediate: 112,
  layers: 2,
  context: 96,
  steps: 3000,
  seed: 1,
}
