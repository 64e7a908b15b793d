// What the base policy is made of: `node dist/examples/make_base.js long_horizon`.

import type { Making } from '../base_policy.ts'
import { demonstration } from './demonstrations.ts'
import { ERROR, GIVEN_UP } from './prompts.ts'
import { DESKS, DONE, ITEMS, NOTHING, SEEN, TOOLS } from './warehouse.ts'

export const making: Making = {
  language: {
    words: [...DESKS.map(({ name }) => name), ...ITEMS, 'order', SEEN, DONE, '?', ERROR, GIVEN_UP, NOTHING],
    tools: TOOLS.map((name) => ({ name, argument: 'item' })),
    digits: false,
  },
  demonstration,
  hidden: 32,
  intermediate: 64,
  layers: 2,
  context: 384,
  steps: 800,
  seed: 1,
}
