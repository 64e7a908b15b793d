// agent-lightning's own spans, `agentlightning.*`, and the rewards they carry: v0.3 writes numbered
// dimensions of which the first is the primary one, v0.2 a single attribute. v0.1: agentops.ts.

import type { Dialect, Reading, RewardReading } from '../data/dialect.ts'
import { score } from '../data/score.ts'
import type { Attributes, Item, Value } from '../data/span.ts'
import { listOf, recordOf, textOf, unflatten } from '../data/values.ts'

const REWARD = 'agentlightning.reward'
const REWARD_SPANS = new Set(['agentlightning.annotation', REWARD])

export default {
  name: 'agent-lightning',
  signs: { names: /^agentlightning\./ },
  rewardSigns: { names: /^agentlightning\./, keys: [REWARD, `${REWARD}.`] },

  matches: (item) => item.signal === 'span' && item.name.startsWith('agentlightning.'),

  read(item): Reading | null {
    const isReward = item.signal === 'span' && REWARD_SPANS.has(item.name) && readRewards(item).length > 0
    return isReward ? { kind: 'evaluator', name: item.name } : { kind: 'chain' }
  },

  rewards: readRewards,
} satisfies Dialect

function readRewards(item: Item): RewardReading[] {
  const { attributes } = item
  const { dimensions, primary } = numbered(attributes)
  if (dimensions.length > 0) return [{ dimensions, primary, source: 'environment', target: targetOf(attributes) }]
  if (item.signal === 'span' && REWARD_SPANS.has(item.name) && attributes.reward !== undefined) {
    return [{ dimensions: [score('primary', attributes.reward)], primary: 'primary', source: 'environment', target: targetOf(attributes) }]
  }
  // Which dimension it would be, its writer did not say.
  return attributes[REWARD] === undefined
    ? []
    : [{ dimensions: [], problem: `${REWARD} has no index: write ${REWARD}.0.value`, source: 'environment' }]
}

/** agentlightning.reward.N.name and .value; anything else below the prefix, or beside it such as reward_model, is no reward. */
function numbered(attributes: Attributes): Pick<RewardReading, 'dimensions' | 'primary'> {
  const written = new Map<number, { name?: Value; value?: Value }>()
  for (const key in attributes) {
    if (!key.startsWith(REWARD)) continue
    const [, index, field] = /^agentlightning\.reward\.(\d+)\.(name|value)$/.exec(key) ?? []
    if (field) written.set(Number(index), { ...written.get(Number(index)), [field]: attributes[key]! })
  }
  const dimensions = [...written]
    .sort(([a], [b]) => a - b)
    .map(([index, { name, value }]) => score(textOf(name) ?? (index === 0 ? 'primary' : `reward_${index}`), value))
  return { dimensions, primary: written.has(0) ? dimensions[0]!.name : undefined }
}

const TARGETS: Readonly<Record<string, keyof NonNullable<RewardReading['target']>>> = {
  trace_id: 'trace_id',
  span_id: 'span_id',
  'gen_ai.response.id': 'response_id',
  'agentlightning.rollout_id': 'rollout_id',
  'leyden.rollout.id': 'rollout_id',
  'session.id': 'session',
}

/** Links name an attribute and the value it has on the span that is meant. */
function targetOf(attributes: Attributes): RewardReading['target'] {
  const target: Record<string, string> = {}
  for (const entry of listOf(unflatten(attributes, 'agentlightning.link'))) {
    const { key_match, value_match } = recordOf(entry) ?? ({} as Record<string, Value>)
    const field = TARGETS[String(key_match)]
    const value = textOf(value_match)
    if (field && value) target[field] = value
  }
  return Object.keys(target).length > 0 ? target : undefined
}
