// What the base policy is made of: `node dist/examples/make_base.js math_tool`.

import type { Making } from '../base_policy.ts'
import { demonstration, INSTRUCTIONS } from './demonstrations.ts'

export const making: Making = {
  language: {
    words: [
      ...`${INSTRUCTIONS} error + - *`.split(' '),
      ...'tom ann bob has apples pens coins buys finds gives loses boxes of each more then how many now ? .'.split(' '),
    ],
    tools: [{ name: 'calculate', argument: 'expression' }],
    digits: true,
  },
  demonstration,
  hidden: 48,
  intermediate: 96,
  layers: 2,
  context: 128,
  steps: 7000,
  seed: 1,
}
