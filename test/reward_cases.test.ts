// The reward cases that trainers get wrong elsewhere, through the front door: OTLP in, SQL out.

import { afterAll, beforeAll, expect, test } from 'vitest'

import { startLeyden, type Leyden } from './leyden.ts'
import { chat, endOf, reward, traces, type SpanSpec } from './spans.ts'

let leyden: Leyden
beforeAll(async () => {
  leyden = await startLeyden('processors: {credit_assignment: {method: identical}}')
})
afterAll(() => leyden.remove())

interface Row {
  reward_outcome: number | null
  reward_intermediate: number | null
  return: number | null
}

async function transitionsOf(rollout: string, calls: number, spans: readonly SpanSpec[]): Promise<Row[]> {
  const ids = { 'leyden.rollout.id': rollout }
  const sent = await leyden.post('traces', traces(rollout, [{ id: `${rollout}-root`, name: 'agent', at: 0, for: 1_000 }, ...spans], ids))
  expect(sent.status).toBe(200)
  expect((await leyden.post('logs', endOf(rollout))).status).toBe(200)
  return leyden.rows<Row>(
    calls,
    `SELECT reward_outcome, reward_intermediate, return FROM transitions WHERE rollout_id = '${rollout}' ORDER BY step`,
  )
}

const under = (rollout: string) => ({ parent: `${rollout}-root` })

test('one call, a step reward of 0.1, then a final 1.0: the outcome is 1.0 and the step keeps its 0.1', async () => {
  const r = 'case-a'
  const rows = await transitionsOf(r, 1, [
    chat('a1', { ...under(r), at: 10 }),
    reward('a2', 0.1, { ...under(r), at: 30 }),
    reward('a3', 1, { ...under(r), at: 40 }),
  ])
  expect(rows).toEqual([{ reward_outcome: 1, reward_intermediate: 0.1, return: 1 }])
})

test('two calls, then 0.1, then a final 1.0: the outcome is 1.0 on both', async () => {
  const r = 'case-b'
  const rows = await transitionsOf(r, 2, [
    chat('b1', { ...under(r), at: 10 }),
    chat('b2', { ...under(r), at: 20 }),
    reward('b3', 0.1, { ...under(r), at: 30 }),
    reward('b4', 1, { ...under(r), at: 40 }),
  ])
  expect(rows.map((row) => row.reward_outcome)).toEqual([1, 1])
  expect(rows.map((row) => row.return)).toEqual([1, 1])
})

test('three calls and only a final reward: identical credit gives it to all', async () => {
  const r = 'case-c'
  const rows = await transitionsOf(r, 3, [
    ...[1, 2, 3].map((n) => chat(`c${n}`, { ...under(r), at: n * 10 })),
    reward('c4', 1, { ...under(r), at: 40 }),
  ])
  expect(rows).toEqual(Array(3).fill({ reward_outcome: 1, reward_intermediate: null, return: 1 }))
})

test('two parallel calls share the final reward', async () => {
  const r = 'case-e'
  const rows = await transitionsOf(r, 2, [
    chat('e1', { ...under(r), at: 10, for: 50 }),
    chat('e2', { ...under(r), at: 20, for: 50 }),
    reward('e3', 1, { ...under(r), at: 100 }),
  ])
  expect(rows.map((row) => row.reward_outcome)).toEqual([1, 1])
})

test('a span "chat gpt-4o" in the GenAI form is a transition', async () => {
  const rows = await transitionsOf('case-f', 1, [chat('f1', { ...under('case-f'), model: 'gpt-4o' })])
  expect(rows).toEqual([{ reward_outcome: null, reward_intermediate: null, return: null }])
})

test.each([
  ['a reward key without an index', { 'agentlightning.reward': 0.5 }],
  ['a key that only begins like a reward', { 'agentlightning.reward_model': 'judge-7b' }],
])('%s does not lose the rollout', async (what, attributes) => {
  const r = what.includes('index') ? 'case-g' : 'case-h'
  const rows = await transitionsOf(r, 1, [
    chat(`${r}-1`, { ...under(r), at: 10, attributes }),
    { id: `${r}-2`, name: 'note', ...under(r), at: 20, attributes },
    reward(`${r}-3`, 1, { ...under(r), at: 40 }),
  ])
  expect(rows).toMatchObject([{ reward_outcome: 1 }])
})

test('an unfinished span costs nothing else', async () => {
  const r = 'case-i'
  const rows = await transitionsOf(r, 1, [
    chat('i1', { ...under(r), at: 10 }),
    { id: 'i2', name: 'abandoned', ...under(r), at: 20, unfinished: true },
    reward('i3', 1, { ...under(r), at: 40 }),
  ])
  expect(rows).toMatchObject([{ reward_outcome: 1 }])
})

test('a NaN reward is refused: the outcome is NULL, not 0', async () => {
  const r = 'case-m'
  const rows = await transitionsOf(r, 1, [chat('m1', { ...under(r), at: 10 }), reward('m2', NaN, { ...under(r), at: 40 })])
  expect(rows).toEqual([{ reward_outcome: null, reward_intermediate: null, return: null }])
})

test('a span that is its own parent, and a cycle beside a root, are cut', async () => {
  const r = 'case-k'
  const rows = await transitionsOf(r, 3, [
    chat('k1', { parent: 'k1', at: 10, answer: 'one' }),
    chat('k2', { parent: 'k3', at: 20, answer: 'two' }),
    chat('k3', { parent: 'k2', at: 30, answer: 'three' }),
    reward('k4', 1, { ...under(r), at: 50 }),
  ])
  expect(rows.map((row) => row.reward_outcome)).toEqual([1, 1, 1])
})
