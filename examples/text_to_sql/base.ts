// What the base policy is made of: `node dist/examples/make_base.js text_to_sql`.

import type { Making } from '../base_policy.ts'
import { NUMBERS, TABLES, TEXTS, VALUES } from './databases.ts'
import { demonstration } from './demonstrations.ts'
import { AGGREGATES, SYNONYMS } from './tasks.ts'

const VALUE_WORDS = Object.values(TEXTS).flat()

export const making: Making = {
  language: {
    words: [
      ...'write check rewrite correct incorrect rows empty error : | ( )'.split(' '),
      ...'how many list show the of with above below equal per'.split(' '),
      ...'select count max min avg sum from where group by * , = > <'.split(' '),
      ...[...TABLES, ...NUMBERS, ...Object.keys(TEXTS), ...Object.values(SYNONYMS), ...Object.keys(AGGREGATES), ...VALUES],
      ...VALUE_WORDS.flatMap((word) => [word, `'${word}'`]),
    ],
    tools: [],
    digits: false,
  },
  demonstration,
  hidden: 48,
  intermediate: 96,
  layers: 2,
  context: 128,
  steps: 3000,
  seed: 1,
}
