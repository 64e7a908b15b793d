import { afterAll, beforeAll, expect, test } from 'vitest'

import type { Message } from '../data/dialect.ts'
import type { Call, Rollout } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const said = (role: Message['role'], text: string): Message => ({ role, parts: [{ kind: 'text', text }] })

/** A rollout whose calls are given, with the step that each extends. */
function chained(rollout_id: string, calls: readonly (Partial<Call> & { extends?: number })[]): Rollout {
  const one = rollout({ rollout_id, calls: calls.length, covered_until: Date.now() })
  const transitions = one.transitions.map((t, i) => {
    const { extends: parent_step = -1, ...call } = calls[i]!
    return { ...t, parent_step, call: { ...t.call, ...call } }
  })
  return { ...one, transitions }
}

async function commit(one: Rollout): Promise<void> {
  await storage.writeRevision([one])
  await storage.commit([one])
}

const [system, question, answer, more, last] = [
  said('system', 'be brief'),
  said('user', 'a "quoted", [tricky] {question}\n'),
  said('assistant', 'a'),
  said('user', 'more'),
  said('assistant', 'z'),
]

test('a prompt is stored as what is new since the step it extends, and put together again', async () => {
  await commit(
    chained('chain', [
      { prompt: [system, question], completion: answer },
      { prompt: [said('user', 'another agent')], completion: last },
      { prompt: [system, question, answer, more], completion: last, extends: 0 },
      { prompt: [system, question, answer, more, last, more, more], completion: answer, extends: 2 },
      { prompt: [system, question, answer, said('user', 'a branch')], completion: last },
    ]),
  )
  const stored = await storage.rows<{ prompt_messages: string }>(
    "SELECT prompt_messages FROM transitions WHERE rollout_id = 'chain' ORDER BY step",
  )
  expect(stored.map((row) => (JSON.parse(row.prompt_messages) as Message[]).length)).toEqual([2, 1, 1, 2, 4])
  const whole = await storage.rows<{ prompt_messages: string }>(
    "SELECT prompt_messages FROM transitions_full(rollouts = ['chain']) ORDER BY step",
  )
  expect(whole.map((row) => JSON.parse(row.prompt_messages) as Message[])).toEqual([
    [system, question],
    [said('user', 'another agent')],
    [system, question, answer, more],
    [system, question, answer, more, last, more, more],
    [system, question, answer, said('user', 'a branch')],
  ])
})

test('tokens are stored as what follows the prefix that both share, and put together again', async () => {
  const tokens = (prompt: number[], response: number[]) => ({
    prompt,
    response,
    logprobs: response.map(() => -0.5),
    source: 'engine' as const,
  })
  await commit(
    chained('tokens', [
      { prompt: [question], completion: answer, tokens: tokens([1, 2, 3], [4, 5]) },
      { prompt: [question, answer, more], completion: answer, tokens: tokens([1, 2, 3, 4, 5, 6], [7, 8]), extends: 0 },
      // The response was tokenized anew: 7, 8 became 9.
      { prompt: [question, answer, more, answer, more], completion: last, tokens: tokens([1, 2, 3, 4, 5, 6, 9, 10], [11]), extends: 1 },
      {
        prompt: [question, answer, more, answer, more, last, more],
        completion: last,
        tokens: tokens([1, 2, 3, 4, 5, 6, 9, 10, 11, 12], [13]),
        extends: 2,
      },
    ]),
  )
  const columns = 'prefix_length, prompt_token_ids, response_token_ids, response_logprobs, token_source'
  expect(await storage.rows(`SELECT ${columns} FROM transitions WHERE rollout_id = 'tokens' ORDER BY step`)).toEqual([
    { prefix_length: 0, prompt_token_ids: [1, 2, 3], response_token_ids: [4, 5], response_logprobs: [-0.5, -0.5], token_source: 'engine' },
    { prefix_length: 5, prompt_token_ids: [6], response_token_ids: [7, 8], response_logprobs: [-0.5, -0.5], token_source: 'engine' },
    { prefix_length: 6, prompt_token_ids: [9, 10], response_token_ids: [11], response_logprobs: [-0.5], token_source: 'engine' },
    { prefix_length: 9, prompt_token_ids: [12], response_token_ids: [13], response_logprobs: [-0.5], token_source: 'engine' },
  ])
  const whole = await storage.rows("SELECT prompt_token_ids FROM transitions_full(rollouts = ['tokens']) ORDER BY step")
  expect(whole.map((row) => row.prompt_token_ids)).toEqual([
    [1, 2, 3],
    [1, 2, 3, 4, 5, 6],
    [1, 2, 3, 4, 5, 6, 9, 10],
    [1, 2, 3, 4, 5, 6, 9, 10, 11, 12],
  ])
})

test('numbers that ClickHouse or JSON cannot hold cost themselves and not the rollout', async () => {
  const tokens = { prompt: [-1, 2 ** 33, 5], response: [Number.NaN], logprobs: [Number.NaN], source: 'attribute' as const }
  const call = { prompt: [question], completion: answer, tokens, params: { seed: 2n ** 60n }, usage: { input: -3, output: 1.5 } }
  const one = chained('odd', [call])
  await commit({ ...one, transitions: one.transitions.map((t) => ({ ...t, policy_version: 1.5 })) })
  expect(
    await storage.rows(
      "SELECT params, usage, policy_version, prompt_token_ids, response_token_ids FROM transitions WHERE rollout_id = 'odd'",
    ),
  ).toEqual([
    {
      params: '{"seed":"1152921504606846976"}',
      usage: {},
      policy_version: null,
      prompt_token_ids: [4294967295, 0, 5],
      response_token_ids: [0],
    },
  ])
})

test('a call whose start is not known has no duration', async () => {
  const prompt = [question]
  await commit(
    chained('unstarted', [
      { prompt, completion: answer, start_time: 0n, end_time: 1_764_500_000_000_000_000n },
      { prompt, completion: answer, start_time: 1_764_500_000_000_000_000n, end_time: 1_764_500_000_000_000_007n },
    ]),
  )
  const stored = await storage.rows("SELECT duration FROM transitions WHERE rollout_id = 'unstarted' ORDER BY step")
  expect(stored.map(({ duration }) => Number(duration))).toEqual([0, 7])
})

test('every column of a transition holds what the transition says, and no reward is NULL', async () => {
  const one = rollout({ rollout_id: 'whole', calls: 2, covered_until: 1_764_000_001_000 })
  const call: Call = {
    ...one.transitions[0]!.call,
    tools: [{ name: 'search' }],
    params: { temperature: 0.7 },
    usage: { input: 12, output: 3 },
    flags: ['truncated'],
  }
  const full = {
    ...one.transitions[0]!,
    policy_version: 7,
    agent: 'solver',
    response_id: 'resp-1',
    call,
    reward_outcome: 1,
    reward_intermediate: 0.25,
    reward_parts: { format: 0.5 },
    return: 1.25,
    advantage: 0.125,
    weight: 1,
    credit_method: 'gae_turn',
    flags: ['truncated'],
  }
  await commit({ ...one, transitions: [full, one.transitions[1]!] })
  const [first, second] = await storage.rows("SELECT * FROM transitions WHERE rollout_id = 'whole' ORDER BY step")
  expect(first).toEqual({
    tenant: '',
    rollout_id: 'whole',
    attempt_id: 'a1',
    revision: 1,
    step: 0,
    span_id: full.span_id,
    parent_step: -1,
    trace_id: full.trace_id,
    task_id: 't1',
    group_id: 'g1',
    policy: 'default',
    policy_version: 7,
    agent: 'solver',
    model: 'policy',
    response_id: 'resp-1',
    prompt_messages: '[{"role":"user","parts":[{"kind":"text","text":"question 0"}]}]',
    completion: '{"role":"assistant","parts":[{"kind":"text","text":"answer 0"}]}',
    tools: '[{"name":"search"}]',
    finish_reason: 'stop',
    params: '{"temperature":0.7}',
    prompt_token_ids: [],
    prefix_length: 0,
    response_token_ids: [],
    response_logprobs: [],
    token_source: 'none',
    reward_outcome: 1,
    reward_intermediate: 0.25,
    reward_parts: { format: 0.5 },
    return: 1.25,
    advantage: 0.125,
    weight: 1,
    credit_method: 'gae_turn',
    credit_version: null,
    started_at: '2025-11-24 16:00:00.010000000',
    duration: 5_000_000,
    usage: { input: 12, output: 3 },
    flags: ['truncated'],
    inserted_at: '2025-11-24 16:00:01.000',
  })
  const { reward_outcome, reward_intermediate, return: credited, advantage, policy_version } = second!
  expect([reward_outcome, reward_intermediate, credited, advantage, policy_version]).toEqual([null, null, null, null, null])
})
