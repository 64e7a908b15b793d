import { expect, test } from 'vitest'

import type { AssignedStep } from '../credit/assign.ts'
import type { AirClass, Call, Reward, Rollout, Tool } from '../data/rollout.ts'
import credit_assignment from '../processors/credit_assignment.ts'
import policy_calls from '../processors/policy_calls.ts'
import { configure, rollout } from '../test/conformance.ts'
import { randomSpans, seeded, treeOf } from '../test/random.ts'
import { creditAlongCourse, creditFromOutline, hasCourse } from './credit_again.ts'
import { outline, wholeReward, type OutlinedRewards } from './outline.ts'
import { rolloutRow } from './rollout_rows.ts'

type Random = (n: number) => number

const SECOND = 1_000_000_000n
const pick = <T>(random: Random, values: readonly T[]): T => values[random(values.length)]!

/**
 * Calls, tools and rewards anywhere in a messy span tree, before any processor saw them. Each span takes its time, since an outline has
 * the others last as long as what is below them.
 */
function randomRun(random: Random): Rollout {
  const spans = randomSpans(random, 6 + random(10)).map((one) => {
    const start_time = one.start_time + 1_000n
    return { ...one, start_time, end_time: one.end_time > start_time ? one.end_time : start_time + 1_000n }
  })
  const one = rollout({ calls: 1, task_id: '', attempt_id: '' })
  const place = (node: number) => ({ ...one.calls[0]!, ...pickTimes(spans[node]!), span_id: spans[node]!.span_id, node })
  const pickTimes = ({ start_time, end_time }: (typeof spans)[number]) => ({ start_time, end_time })
  const nodes = [...spans.keys()].filter(() => random(3) > 0)
  const calls = nodes.slice(0, 4).map((node): Call => ({ ...place(node), agent: pick(random, ['', 'solver', 'checker']) }))
  const tools = nodes.slice(4, 8).map((node): Tool => {
    const asked = { requested_by: pick(random, calls)?.span_id ?? '', air_class: pick<AirClass>(random, ['ok', 'policy_error', 'empty']) }
    const verdict = { status: 'ok' as const, evidence: 'result' as const }
    return { ...place(node), name: 'search', arguments: `{"q":${random(3)}}`, inferred: random(4) === 0, verdict, ...asked }
  })
  const rewards = nodes.slice(8).map((node, i) => rewardAt(random, i, { ...place(node), span_id: `reward-${i}` }, calls))
  const mode = { air_mode: pick(random, ['potential', 'bonus', 'off'] as const), air_weight: 0.3, status: 'succeeded' as const }
  return { ...one, ...mode, tree: treeOf(spans), calls, tools, rewards, transitions: [], rejects: [] }
}

function rewardAt(random: Random, i: number, place: Call, calls: readonly Call[]): Reward {
  const about = random(3)
  const call = calls.length > 0 ? pick(random, calls) : undefined
  const target = about === 0 ? { rollout_id: 'r' } : about === 1 && call ? { span_id: call.span_id } : undefined
  const said = { kind: 'reward' as const, reward_id: `r${i}`, given_at: 0, source: pick(random, ['environment', 'human'] as const) }
  const dimensions = [{ name: pick(random, ['correct', 'style']), value: random(100) / 7 }]
  const { node, start_time, end_time, span_id } = place
  const where = { span_id, node, start_time, end_time, parent_span_id: '', trace_id: '', dialect: '', scope: '', judged: false }
  return { ...where, ...said, dimensions, target, target_node: target?.span_id && call ? call.node : undefined }
}

const creditIn = (t: AssignedStep) => [t.reward_intermediate, t.reward_parts, t.return, t.advantage, t.credit_method]

test('a late score of the whole makes of a stored row, of its outline, and of the whole run the same to the last bit', () => {
  const random = seeded(11)
  const pickCalls = configure(policy_calls, { rewards: { primary: 'correct' } })
  let along = 0
  for (let i = 0; i < 200; i++) {
    const method = pick(random, ['auto', 'identical', 'last', 'gae_turn', 'discounted', 'return_to_go'])
    const settings = { method, gamma: pick(random, [1, 0.9]), causality: pick(random, ['tree', 'time']), include_steps: random(2) === 0 }
    const assign = configure(credit_assignment, settings)
    const credited = (run: Rollout): Rollout => assign.process(pickCalls.process(run))
    const before = randomRun(random)
    const time = SECOND * BigInt(1 + random(1_000))
    const place = {
      ...rewardAt(random, 99, { ...before.calls[0]!, node: -1, start_time: time, end_time: time }, []),
      target: { rollout_id: 'r' },
    }
    const late: Reward = { ...place, override: random(5) === 0 || undefined }

    const now = credited({ ...before, rewards: [...before.rewards, late] })
    const was = credited(before)
    const kept = outline(was)
    const row = rolloutRow(was, kept)
    const rewards: OutlinedRewards = { ...kept.rewards, given: [...kept.rewards.given, wholeReward(late, kept.rewards)] }
    const steps = now.transitions.map(creditIn)
    const ways = [creditFromOutline(row, kept.outline, rewards), ...(hasCourse(row) ? [creditAlongCourse(row, rewards)] : [])]
    along += ways.length - 1
    for (const { row: stored, steps: found } of ways) {
      expect(stored.outcome).toBe(now.outcome)
      expect(found.map(creditIn)).toEqual(steps)
      expect(stored.returns).toEqual(now.transitions.map((t) => t.return))
    }
    // What is stored of either is enough for the next.
    if (ways.length === 2) expect(ways[0]!.row).toEqual(ways[1]!.row)
  }
  expect(along).toBeGreaterThan(50)
})
