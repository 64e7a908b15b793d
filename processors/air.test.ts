import { describe, expect, test } from 'vitest'

import type { Verdict } from '../data/dialect.ts'
import type { Rollout, Tool } from '../data/rollout.ts'
import { configure, conforms, problems, rollout, testContext } from '../test/conformance.ts'
import air from './air.ts'

conforms(air)

const judge = (input: Rollout, options: object = {}, context = testContext()): Rollout => configure(air, options, context).process(input)

/** A tool execution that a log record tells of, `after` milliseconds after the beginning of the first call. */
const tool = (input: Rollout, after: number, verdict: Partial<Verdict> = {}, over: Partial<Tool> = {}): Tool => {
  const start_time = input.calls[0]!.start_time + BigInt(after) * 1_000_000n
  const place = { span_id: `tool${after}`, parent_span_id: '', trace_id: '', start_time, end_time: start_time + 1_000_000n }
  const status = { status: 'ok' as const, evidence: '', ...verdict }
  return {
    ...place,
    dialect: 'genai',
    scope: '',
    node: -1,
    judged: false,
    name: 'search',
    verdict: status,
    inferred: false,
    requested_by: '',
    ...over,
  }
}

/** Calls of the sample rollout last 5 ms and begin every 10 ms; here without a root that encloses them. */
const flat = (calls: number): Rollout => {
  const input = rollout({ calls, reward: 1 })
  return {
    ...input,
    tree: { ...input.tree, parent: input.tree.parent.map(() => -1), end: input.tree.end.map((end, i) => (i === 0 ? 0 : end)) },
  }
}

test('every tool gets its class, and the rollout the mode and its weight', () => {
  const input = flat(2)
  const tools = [
    tool(input, 6),
    tool(input, 7, { status: 'error' }),
    tool(input, 8, { status: 'error', http_status: 503 }),
    tool(input, 9, {}, { result: '' }),
  ]
  const context = testContext()
  const found = judge({ ...input, tools }, {}, context)
  expect(found.tools.map((t) => t.air_class)).toEqual(['ok', 'policy_error', 'env_error', 'empty'])
  expect(found).toMatchObject({ air_mode: 'potential', air_weight: 0.3 })
  expect(judge(input, { mode: 'bonus', cap: 0.1 })).toMatchObject({ air_mode: 'bonus', air_weight: 0.1 })
  expect(context.counts['leyden_air_tools']).toBe(4)
})

test('the cap of the bonus shrinks with the oldest version that acted, and stays where none is known', () => {
  const weight = (versions: (number | null)[], options: object = {}) => {
    const input = rollout({ calls: versions.length })
    const transitions = input.transitions.map((t, i) => ({ ...t, policy_version: versions[i]! }))
    return judge({ ...input, transitions }, { mode: 'bonus', cap: 0.2, ...options }).air_weight
  }
  expect([weight([0]), weight([60, 90]), weight([120]), weight([500]), weight([null])]).toEqual([0.2, 0.1, 0, 0, 0.2])
  expect([weight([60], { anneal: 0 }), weight([60], { mode: 'potential' })]).toEqual([0.2, 0.3])
})

test('off says so and looks at nothing', () => {
  const input = flat(1)
  const found = judge({ ...input, tools: [tool(input, 6)] }, { mode: 'off' })
  expect([found.air_mode, found.tools[0]!.air_class]).toEqual(['off', undefined])
})

test("a judge's tools and those that were only asked for have no class", () => {
  const input = flat(1)
  const tools = [tool(input, 6, {}, { judged: true }), tool(input, 7, { status: 'unknown' }, { inferred: true })]
  expect(judge({ ...input, tools }).tools.map((t) => t.air_class)).toEqual([undefined, undefined])
})

test('a tool that ran and of which nothing else is known has no class; what tells of a failure, or an own rule, gives it one', () => {
  const input = flat(1)
  const unknown = { status: 'unknown' } as const
  const tools = [tool(input, 6, unknown), tool(input, 7, { ...unknown, http_status: 503 })]
  const classes = (options = {}) => judge({ ...input, tools }, options).tools.map((t) => t.air_class)
  expect(classes()).toEqual([undefined, 'env_error'])
  expect(classes({ rules: [{ class: 'ok', statuses: ['unknown'] }] })).toEqual(['ok', 'ok'])
})

describe('the call that asked for a tool', () => {
  test('is the one that an id names, else the one that led to it', () => {
    const input = flat(3)
    const [first, second] = input.calls
    const named = tool(input, 27, {}, { requested_by: first!.span_id })
    const found = judge({ ...input, tools: [named, tool(input, 16), tool(input, 0)] })
    expect(found.tools.map((t) => t.requested_by)).toEqual([first!.span_id, second!.span_id, ''])
  })

  test('is never a judge', () => {
    const input = flat(2)
    const calls = input.calls.map((call, i) => (i === 1 ? { ...call, judged: true } : call))
    expect(judge({ ...input, calls, tools: [tool(input, 16)] }).tools[0]!.requested_by).toBe(input.calls[0]!.span_id)
  })
})

describe('a call whose tool met an outage', () => {
  const weights = (...verdicts: Partial<Verdict>[]) => {
    const input = flat(verdicts.length)
    const tools = verdicts.map((verdict, i) => tool(input, i * 10 + 6, verdict))
    return judge({ ...input, tools, transitions: input.transitions.map((t) => ({ ...t, weight: 1 })) }).transitions.map((t) => t.weight)
  }
  const outage = { status: 'error', error_type: 'TimeoutError' } as const

  test('is not trained when the run never got over it', () => expect(weights({}, outage)).toEqual([1, 0]))
  test('is trained when a later tool went well', () => expect(weights(outage, {})).toEqual([1, 1]))
  test('is trained when the error was its own', () => expect(weights({ status: 'error' })).toEqual([1]))
})

test('own rules come before the built-in ones', () => {
  const input = flat(1)
  const rules = [{ class: 'policy_error', tools: ['sear*'], texts: ['^no '] }]
  expect(judge({ ...input, tools: [tool(input, 6, {}, { result: 'No such luck' })] }, { rules }).tools[0]!.air_class).toBe('policy_error')
})

test('a cap that could outweigh success and a broken pattern are refused', () => {
  expect(problems(air, { mode: 'bonus', cap: 0.5 })).toEqual([
    'cap: must be below 0.5, or a failure could earn as much as a success (got 0.5)',
  ])
  expect(problems(air, { rules: [{ class: 'ok', texts: ['('] }] })).toEqual([
    expect.stringContaining('rules::0::texts::0: must be a regular expression'),
  ])
})
