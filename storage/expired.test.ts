import { afterAll, beforeAll, expect, test } from 'vitest'

import { routeKey } from '../data/routing.ts'
import air from '../processors/air.ts'
import credit_assignment from '../processors/credit_assignment.ts'
import policy_calls from '../processors/policy_calls.ts'
import { configure, logBatch, spanBatch } from '../test/conformance.ts'
import { assembling, logs } from '../test/read.ts'
import { chat, traceIdOf } from '../test/spans.ts'
import { allRevisions } from '../test/revisions.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage({ ttl: 60_000 })
})
afterAll(() => storage.close())

const key = routeKey('r', '')
const processors = [configure(policy_calls), configure(air, { mode: 'off' }), configure(credit_assignment)]

async function close(): Promise<number> {
  const now = Date.now()
  const rollout = { key, traces: new Set([traceIdOf('t')]), held: null, bytes: 0, count: 0, first_at: now - 40_000, last_at: now - 40_000 }
  const due = { rollout: { ...rollout, rooted: true, ended: false, late: false, due: false, doubtful: true }, closed_by: 'root' as const }
  const { revisions: assembled } = await allRevisions(storage, [due], assembling)
  await storage.writeRevision(assembled.map((one) => processors.reduce((r, processor) => processor.process(r), one)))
  await storage.commit(assembled)
  return assembled.length
}

const score = (value: number, more: Record<string, unknown> = {}) =>
  logBatch(
    logs({
      event: 'gen_ai.evaluation.result',
      at: 5_000,
      span: 'root',
      attributes: { 'gen_ai.evaluation.name': 'correct', 'gen_ai.evaluation.score.value': value, ...more },
    }),
  )

test('a reward that comes after the spans expired is credited from the outline, and loses no transition', async () => {
  const calls = ['c1', 'c2'].map((id, i) =>
    chat(id, { parent: 'root', at: 10 + i * 10, answer: id, trace: 't', attributes: { 'gen_ai.response.id': id } }),
  )
  await storage.insertSpans([spanBatch([{ id: 'root', trace: 't', at: 0, for: 100 }, ...calls])], [[key, key, key]])
  expect(await close()).toBe(1)
  await storage.client.command({ query: 'TRUNCATE TABLE spans' })

  await storage.insertSpans([score(0.5, { 'leyden.score.id': 's1' })], [[key]])
  expect(await close()).toBe(0)
  await storage.insertSpans([score(0.1, { 'gen_ai.response.id': 'c1' })], [[key]])
  expect(await close()).toBe(0)

  expect(
    await storage.rows('SELECT step, revision, reward_outcome, reward_intermediate, return FROM transitions ORDER BY step'),
  ).toMatchObject([
    { step: 0, reward_outcome: 0.5, reward_intermediate: 0.1, return: 0.5 },
    { step: 1, reward_outcome: 0.5, reward_intermediate: null, return: 0.5 },
  ])
  expect(await storage.rows('SELECT outcome, spans FROM rollouts FINAL')).toEqual([{ outcome: 0.5, spans: 3 }])
  expect(await storage.rows('SELECT reward_id, value FROM rewards ORDER BY value')).toMatchObject([
    { value: 0.1 },
    { reward_id: 's1', value: 0.5 },
  ])
})
