// What the base policy is made of: `node dist/examples/make_base.js multi_hop`.

import type { Making } from '../base_policy.ts'
import { ADJECTIVES, CITIES, COMPANIES, COUNTRIES, FIRST_NAMES, LAST_NAMES, NOUNS, RELATIONS } from './documents.ts'
import { demonstration } from './demonstrations.ts'
import { INSTRUCTIONS } from './prompts.ts'

export const making: Making = {
  language: {
    words: [
      ...`${INSTRUCTIONS} ; <answer> </answer> where was the director star of born who is spouse which company`.split(' '),
      ...'employs country birth city in employer ?'.split(' '),
      ...[...FIRST_NAMES, ...LAST_NAMES, ...ADJECTIVES, ...NOUNS, ...CITIES, ...COMPANIES, ...COUNTRIES, ...RELATIONS],
    ],
    tools: [{ name: 'search', argument: 'query' }],
    digits: false,
  },
  demonstration,
  hidden: 48,
  intermediate: 96,
  layers: 2,
  context: 128,
  steps: 2000,
  seed: 1,
}
