import { describe, expect, test } from 'vitest'

import type { Call, Reward, Rollout } from '../data/rollout.ts'
import { configure, conforms, rollout, testContext } from '../test/conformance.ts'
import policy_calls from './policy_calls.ts'

conforms(policy_calls)

/** The sample rollout before its calls are picked, each call changed as told. */
const read = (changes: Partial<Call>[], over: Parameters<typeof rollout>[0] = {}): Rollout => {
  const input = rollout({ calls: changes.length, ...over })
  return { ...input, transitions: [], calls: input.calls.map((call, i) => ({ ...call, ...changes[i] })) }
}
const select = (input: Rollout, options: object = {}, context = testContext()): Rollout =>
  configure(policy_calls, options, context).process(input)
const reasons = (input: Rollout) => input.rejects.map(({ reason, policy }) => [reason, policy])

test('without options every whole call becomes a transition of the policy `default`', () => {
  const { transitions, rejects } = select(read([{ response_id: 'x', policy_version: 3, agent: 'writer' }, {}]))
  expect(rejects).toEqual([])
  expect(
    transitions.map(({ step, policy, agent, response_id, policy_version, weight }) => [
      step,
      policy,
      agent,
      response_id,
      policy_version,
      weight,
    ]),
  ).toEqual([
    [0, 'default', 'writer', 'x', 3, 1],
    [1, 'default', '', '', null, 1],
  ])
})

describe('a policy takes a call', () => {
  const takes = (policy: object, call: Partial<Call>) =>
    select(read([call]), { policies: [{ name: 'p', ...policy }] }).transitions.length === 1

  test.each([
    ['qwen*', { model: 'qwen2.5-7b' }, true],
    ['qwen*', { model: 'openrouter/Qwen/Qwen2.5-7b' }, true],
    ['qwen/*', { model: 'openrouter/Qwen/Qwen2.5-7b' }, true],
    ['qwen*', { model: 'gpt-4o' }, false],
    ['policy', { model: 'policy-2026-01-01', request_model: 'policy' }, true],
  ])('by its model: %s takes %j: %s', (glob, call, expected) => expect(takes({ models: [glob] }, call)).toBe(expected))

  test('by its agent', () => {
    expect(takes({ agents: ['writer', 'editor'] }, { agent: 'editor' })).toBe(true)
    expect(takes({ agents: ['writer'] }, { agent: 'critic' })).toBe(false)
    expect(takes({ agents: ['writer'] }, {})).toBe(false)
  })

  test('by its endpoint', () => {
    expect(takes({ endpoints: ['*:4000'] }, { endpoint: 'localhost:4000' })).toBe(true)
    expect(takes({ endpoints: ['*:4000'] }, { endpoint: 'api.openai.com' })).toBe(false)
  })

  test('by what was asked of the model', () => {
    expect(takes({}, { operation: 'embeddings' })).toBe(false)
    expect(takes({ operations: ['embeddings'] }, { operation: 'embeddings' })).toBe(true)
  })
})

test('of several policies the first that takes a call has it', () => {
  const policies = [{ name: 'writer', agents: ['writer'] }, { name: 'rest' }]
  const { transitions } = select(read([{ agent: 'critic' }, { agent: 'writer' }]), { policies })
  expect(transitions.map((t) => t.policy)).toEqual(['rest', 'writer'])
})

test('every call is a transition or a reject with its reason, and rejects are counted', () => {
  const input = read([{}, { judged: true }, { model: 'gpt-4o' }, { flags: ['truncated'] }, {}])
  const context = testContext()
  const found = select(input, { policies: [{ name: 'p', models: ['policy'] }] }, context)
  expect(reasons(found)).toEqual([
    ['judged', 'p'],
    ['no_policy', ''],
    ['truncated', 'p'],
  ])
  expect(found.rejects[1]!.detail).toBe('no policy takes operation chat, model gpt-4o, agent -, endpoint -')
  const seen = [...found.transitions, ...found.rejects].map((r) => r.span_id)
  expect(seen.toSorted()).toEqual(input.calls.map((call) => call.span_id).toSorted())
  expect(context.counts['leyden_rejected_calls']).toBe(3)
})

test('a call whose messages were cut is a transition all the same when it carries token ids', () => {
  const tokens = { prompt: [1, 2], response: [3], logprobs: [-0.1], source: 'engine' as const }
  expect(select(read([{ flags: ['truncated'], tokens }])).transitions).toHaveLength(1)
})

test('a call that goes on where an earlier one left off names it', () => {
  const text = (role: 'user' | 'assistant', text: string) => ({ role, parts: [{ kind: 'text' as const, text }] })
  const first = { prompt: [text('user', 'a')], completion: text('assistant', 'b') }
  const second = { prompt: [...first.prompt, first.completion, text('user', 'c')], completion: text('assistant', 'd') }
  const { transitions } = select(read([first, { model: 'frozen' }, second]), { policies: [{ name: 'p', models: ['policy'] }] })
  expect(transitions.map((t) => [t.step, t.parent_step])).toEqual([
    [0, -1],
    [1, 0],
  ])
})

test('a validation rollout keeps its transitions, and none of them weighs', () => {
  expect(select(read([{}], { mode: 'val' })).transitions.map((t) => t.weight)).toEqual([0])
})

describe('rewards', () => {
  const reward = (input: Rollout, value: number, after: number, over: Partial<Reward> = {}): Reward => {
    const { dialect, scope, trace_id } = input.calls[0]!
    const time = input.calls[0]!.start_time + BigInt(after) * 1_000_000n
    const place = {
      span_id: `reward${after}`,
      parent_span_id: '',
      trace_id,
      start_time: time,
      end_time: time,
      dialect,
      scope,
      node: 0,
      judged: false,
    }
    const dimensions = [{ name: 'primary', value }]
    return { ...place, reward_id: `r${after}`, given_at: 0, dimensions, primary: 'primary', source: 'environment', ...over }
  }
  const given = (input: Rollout, rewards: Reward[], options: object = {}) =>
    select({ ...input, rewards }, options).transitions.map((t) => [t.reward_outcome, t.reward_intermediate])

  test('one call, step 0.1, then final 1', () => {
    const input = read([{}])
    expect(given(input, [reward(input, 0.1, 6), reward(input, 1, 20)])).toEqual([[1, 0.1]])
  })

  test('a final reward is the outcome of every call', () => {
    const input = read([{}, {}, {}])
    expect(given(input, [reward(input, 1, 40)])).toEqual([
      [1, null],
      [1, null],
      [1, null],
    ])
  })

  test('no reward is null', () => {
    expect(given(read([{}]), [])).toEqual([[null, null]])
  })

  test('what a frozen model does after the last policy call does not make a final reward a step', () => {
    const input = read([{}, { model: 'frozen' }])
    expect(given(input, [reward(input, 1, 8)], { policies: [{ name: 'p', models: ['policy'] }] })).toEqual([[1, null]])
  })

  test('the step reward of a call that cannot be trained goes to the one that led to it', () => {
    const input = read([{}, { flags: ['truncated'] }, {}])
    const step = reward(input, 0.2, 17, { target: { span_id: input.calls[1]!.span_id }, target_node: 2 })
    expect(given(input, [step, reward(input, 1, 40)])).toEqual([
      [1, 0.2],
      [1, null],
    ])
  })
})
