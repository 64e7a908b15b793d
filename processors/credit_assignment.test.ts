import { describe, expect, test } from 'vitest'

import type { Rollout, Tool, Transition } from '../data/rollout.ts'
import { configure, conforms, problems, rollout } from '../test/conformance.ts'
import air from './air.ts'
import credit_assignment from './credit_assignment.ts'

conforms(credit_assignment)

const assign = (input: Rollout, options: object = {}): Rollout => configure(credit_assignment, options).process(input)
const returns = (input: Rollout, options: object = {}) => assign(input, options).transitions.map((t) => t.return)
const each = (input: Rollout, change: (t: Transition) => Partial<Transition>): Rollout => ({
  ...input,
  transitions: input.transitions.map((t) => ({ ...t, ...change(t) })),
})

test.each([
  [1, [1, 1, 1]],
  [0.5, [0.25, 0.5, 1]],
])('gamma %f shares a reward of 1 as %j', (gamma, shares) => {
  expect(returns(rollout({ calls: 3, reward: 1 }), { method: 'discounted', gamma })).toEqual(shares)
})

test('every call gets the outcome, never a step reward in its place', () => {
  const steps = each(rollout({ calls: 2, reward: 1 }), ({ step }) =>
    step === 0 ? { reward_intermediate: 0.1, reward_parts: { step: 0.1 } } : {},
  )
  expect(returns(steps)).toEqual([1, 1])
  expect(returns(steps, { include_steps: true })).toEqual([1.1, 1.1])
  expect(returns(steps, { method: 'return_to_go' })).toEqual([1.1, 1])
  expect(assign(steps).transitions[0]).toMatchObject({ reward_outcome: 1, reward_intermediate: 0.1, credit_method: 'identical' })
})

test('calls that only log records tell of are ordered by their own times', () => {
  const input = rollout({ calls: 3, reward: 1 })
  const tree = { ...input.tree, count: 0, parent: new Int32Array(0), start: new Float64Array(0), end: new Float64Array(0) }
  const spanless = each({ ...input, tree }, ({ call }) => ({ call: { ...call, node: -1 } }))
  expect(returns(spanless, { method: 'discounted', gamma: 0.5 })).toEqual([0.25, 0.5, 1])
})

test('no reward is no return, never 0', () => {
  expect(returns(rollout({ reward: null }))).toEqual([null, null, null])
})

test.each([
  ['limit', null, 0],
  ['limit', 0.7, 0],
  ['failed', 0.2, 0.2],
  ['failed', null, null],
  ['cancelled', 1, null],
  ['timeout', 1, null],
] as const)('a rollout with status %s and outcome %j returns %j', (status, reward, expected) => {
  expect(returns(rollout({ calls: 1, status, reward }))).toEqual([expected])
})

test('the lowest reward is that of the reward range', () => {
  expect(returns(rollout({ calls: 1, status: 'limit' }), { reward_range: [-1, 1] })).toEqual([-1])
})

test('what can have no group has no advantage; what can, waits for it', () => {
  const alone = rollout({ calls: 2, reward: 1, group_id: '', task_id: '' })
  expect(assign(alone).transitions.map((t) => t.advantage)).toEqual([0, 0])
  expect(assign({ ...alone, outcome: null }).transitions.map((t) => t.advantage)).toEqual([null, null])
  expect(assign({ ...alone, task_id: 't1' }).transitions.map((t) => t.advantage)).toEqual([null, null])
})

test('auto is gae_turn where air works in mode potential, and the rollout keeps how it was credited', () => {
  const found = assign({ ...rollout({ reward: 1 }), air_mode: 'potential', air_weight: 0.3 })
  expect(found.credit).toEqual({
    method: 'gae_turn',
    gamma: 1,
    lambda: 0.95,
    baseline: 'auto',
    normalize: 'none',
    min_group: 2,
    reward_range: [0, 1],
    include_steps: false,
    causality: 'tree',
    leave_one_out: false,
    group_by: 'group',
    statuses: { succeeded: 'as_scored', failed: 'as_scored', cancelled: 'left_out', timeout: 'left_out', limit: 'lowest' },
  })
  expect(found.transitions.map((t) => t.credit_method)).toEqual(['gae_turn', 'gae_turn', 'gae_turn'])
})

test.each([
  [[0, 3], 0.8],
  [[50, 60], 0.9],
  [[null, 100], 1],
  [[900, 1000], 1],
  [[null, null], 0.95],
])('policy versions %j give lambda %f', (versions, lambda) => {
  const input = each(rollout({ calls: 2, reward: 1 }), ({ step }) => ({ policy_version: versions[step]! }))
  expect(assign(input).credit!.lambda).toBeCloseTo(lambda, 12)
  expect(assign(input, { lambda: 0.5 }).credit!.lambda).toBe(0.5)
})

describe('with air before it', () => {
  /** Each of the first calls asks for one tool: a success, the same again, an error. */
  const withTools = () => {
    const input = rollout({ calls: 4, reward: 1 })
    const tools = [
      ['{"q":1}', 'ok'],
      ['{"q": 1}', 'ok'],
      ['{"q":2}', 'error'],
    ].map(([args, status], i): Tool => {
      const { dialect, scope, span_id, parent_span_id, trace_id, start_time, end_time } = input.calls[i]!
      const place = { dialect, scope, parent_span_id, trace_id, start_time, end_time, node: -1, judged: false }
      const verdict = { status: status as 'ok' | 'error', evidence: '' }
      return { ...place, span_id: `tool${i}`, name: 'search', arguments: args!, verdict, inferred: true, requested_by: span_id }
    })
    return { ...input, tools }
  }
  const judged = (mode: string, input = withTools()): Rollout => configure(air, { mode }).process(input)

  test('at lambda 1 the potential changes no return', () => {
    returns(judged('potential'), { lambda: 1 }).forEach((value) => expect(value).toBeCloseTo(1, 12))
  })

  test('below it the returns lean on what the tools promised', () => {
    const phi = 0.3 * (1 - Math.exp(-1 / 3))
    const leaning = returns(judged('potential'), { lambda: 0 })
    ;[phi, phi, phi / 1.1, 1].forEach((expected, i) => expect(leaning[i]).toBeCloseTo(expected, 12))
    expect(assign(judged('potential')).transitions[0]).toMatchObject({ reward_intermediate: null, reward_parts: {} })
  })

  test('a wider reward range makes the promise as much larger', () => {
    const wide = returns(judged('potential'), { lambda: 0, reward_range: [0, 10] })
    expect(wide[0]).toBeCloseTo(3 * (1 - Math.exp(-1 / 3)), 12)
  })

  test('a bonus is a reward of its own, paid once, and reaches identical returns as a sum', () => {
    const found = assign(judged('bonus'))
    expect(found.transitions.map((t) => t.reward_parts['air'] ?? 0)).toEqual([0.1, 0, -0.1, 0])
    expect(found.transitions.map((t) => t.reward_intermediate)).toEqual([0.1, null, -0.1, null])
    expect(found.transitions.map((t) => t.return)).toEqual([1, 1, 1, 1])
    expect(found.outcome).toBe(1)
  })

  test('crediting a second time changes nothing', () => {
    const once = assign(judged('bonus'), { method: 'return_to_go' })
    expect(assign(once, { method: 'return_to_go' })).toEqual(once)
  })

  test("what a frozen agent's tools did counts for nothing", () => {
    const input = withTools()
    const frozen = { ...input, transitions: input.transitions.slice(3) }
    expect(returns(judged('potential', frozen), { lambda: 0 })).toEqual([1])
  })

  test('identical returns are the same to the bit, whatever the potential', () => {
    expect(returns(judged('potential'), { method: 'identical' })).toEqual(returns(withTools(), { method: 'identical' }))
  })
})

test.each([[[1]], [[1, 0]], [[0, 1, 2]]])('a reward range of %j is refused', (reward_range) => {
  expect(problems(credit_assignment, { reward_range })).toEqual([
    expect.stringContaining('reward_range: must be the lowest and the highest'),
  ])
})

test('a status counts as configured: one that timed out may be the lowest, one that failed may tell nothing', () => {
  const ended = (status: 'timeout' | 'failed', statuses: object) =>
    configure(credit_assignment, { method: 'identical', statuses }).process({ ...rollout({ reward: 1 }), status }).transitions[0].return
  expect([ended('timeout', {}), ended('timeout', { timeout: 'lowest' })]).toEqual([null, 0])
  expect([ended('failed', {}), ended('failed', { failed: 'left_out' })]).toEqual([1, null])
})

test('causality by time lets a call answer for all that ended after it', () => {
  const returns = (causality: string) =>
    configure(credit_assignment, { method: 'return_to_go', causality })
      .process(rollout({ reward: 1 }))
      .transitions.map((t: { return: number }) => t.return)
  expect(returns('time')).toEqual(returns('tree'))
})
