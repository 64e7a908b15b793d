// The proposed conventions for reinforcement learning frameworks, which no release has yet: a reward is a span of its
// own, rl.reward, below the sample that it is about.

import type { Dialect, Reading, RewardReading } from '../data/dialect.ts'
import { score } from '../data/score.ts'
import type { Item } from '../data/span.ts'

const SCORE = 'rl.reward.score'
const NAMES = new Set(['rl.reward', 'rl.sample'])

export default {
  name: 'rl',
  signs: { keys: [SCORE], names: /^rl\.(reward|sample)$/ },
  rewardSigns: { keys: [SCORE] },

  matches: (item) => item.signal === 'span' && (item.attributes[SCORE] !== undefined || NAMES.has(item.name)),

  read: (item): Reading => (item.attributes[SCORE] === undefined ? { kind: 'chain' } : { kind: 'evaluator' }),

  rewards(item: Item): RewardReading[] {
    const value = item.attributes[SCORE]
    if (item.signal !== 'span' || value === undefined) return []
    const target = item.parent_span_id === '' ? undefined : { trace_id: item.trace_id, span_id: item.parent_span_id }
    return [{ dimensions: [score('primary', value)], primary: 'primary', source: 'environment', target }]
  },
} satisfies Dialect
