import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { readRaw } from '../data/read.ts'
import { scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import type { Rollout } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { spanIdOf, traceIdOf, traces } from '../test/spans.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

const batch = (signal: SpanBatch['signal'], document: object): SpanBatch => scan(signal, fromJson(signal, document)).batch
const key = (rollout: string, attempt = '') => `${rollout}\u0000${attempt}`

test('a span is stored with its own bytes and the columns that searches need', async () => {
  const spans = batch(
    'traces',
    traces('t1', [
      { id: 'a', name: 'run', for: 7, attributes: { 'gen_ai.response.id': 'resp-1' } },
      { id: 'b', parent: 'a', status: 2 },
    ]),
  )
  await storage.insertSpans([spans], [[key('r1'), '']])
  const rows = await storage.rows(
    `SELECT span_id, parent_span_id, name, service, kind, status, duration, signal, rollout_hint, response_id, start_time
     FROM spans WHERE trace_id = '${traceIdOf('t1')}' ORDER BY start_time`,
  )
  expect(rows).toEqual([
    {
      span_id: spanIdOf('a'),
      parent_span_id: '',
      name: 'run',
      service: 'test-agent',
      kind: 'internal',
      status: 'unset',
      duration: 7_000_000,
      signal: 'span',
      rollout_hint: key('r1'),
      response_id: 'resp-1',
      start_time: '2025-11-24 16:00:00.000000000',
    },
    expect.objectContaining({ span_id: spanIdOf('b'), parent_span_id: spanIdOf('a'), status: 'error', rollout_hint: '', response_id: '' }),
  ])
})

test('what was stored twice is read back once, spans and log records alike', async () => {
  const spans = batch('traces', traces('t2', [{ id: 'a', unfinished: true }, { id: 'b' }]))
  const finished = batch('traces', traces('t2', [{ id: 'a', for: 3 }]))
  await storage.insertSpans([spans, spans], [])
  await storage.insertSpans([finished], [])
  const items = (await storage.readItems([traceIdOf('t2'), traceIdOf('none')])).map(readRaw)
  expect(items.map((item) => item.signal === 'span' && [item.span_id, item.end_time > 0n])).toEqual([
    [spanIdOf('a'), true],
    [spanIdOf('b'), true],
  ])
  expect(items[0]!.resource).toEqual({ 'service.name': 'test-agent' })
  expect(await storage.rows(`SELECT count() AS n FROM spans_unique WHERE trace_id = '${traceIdOf('t2')}'`)).toEqual([{ n: 2 }])
})

/** A rollout of one call. */
const one = (rollout_id: string, over: Partial<Omit<Rollout, 'calls'>> = {}) =>
  rollout({ rollout_id, attempt_id: '', calls: 1, covered_until: Date.now(), ...over })
const live = (rollout_id: string) => storage.rows(`SELECT revision, step FROM transitions WHERE rollout_id = '${rollout_id}' ORDER BY step`)

async function commit(...rollouts: Rollout[]): Promise<void> {
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
}

test('a revision is invisible until it is committed', async () => {
  await storage.writeRevision([one('r3')])
  expect(await live('r3')).toEqual([])
  await storage.commit([one('r3')])
  expect(await live('r3')).toEqual([{ revision: 1, step: 0 }])
})

test('a revision that is written again is the same block', async () => {
  await commit(one('r4'))
  await commit(one('r4'))
  expect(await live('r4')).toEqual([{ revision: 1, step: 0 }])
})

test('a later revision takes the place of an earlier one, also when nothing is left of it', async () => {
  const two = rollout({ rollout_id: 'r5', attempt_id: '', calls: 2, covered_until: Date.now() })
  await commit(two)
  expect(await live('r5')).toEqual([
    { revision: 1, step: 0 },
    { revision: 1, step: 1 },
  ])
  const rejects = [{ span_id: 'a', policy: 'default', reason: 'truncated', detail: 'prompt' }]
  await commit({ ...two, revision: 2, transitions: [], rejects })
  expect(await live('r5')).toEqual([])
  expect(await storage.rows("SELECT revision, reason, detail FROM rejects WHERE rollout_id = 'r5'")).toEqual([
    { revision: 2, reason: 'truncated', detail: 'prompt' },
  ])
})

test('raw spans are stored while more is written of rollouts than ClickHouse takes in at once', async () => {
  await storage.client.command({ query: 'ALTER TABLE transition_rows ADD CONSTRAINT slow CHECK sleep(0.4) = 0' })
  let writing = 3
  const writes = ['w1', 'w2', 'w3'].map((id) => storage.writeRevision([one(id)]).finally(() => writing--))
  await storage.insertSpans([batch('traces', traces('beside', [{ id: 'beside' }]))], [])
  expect(writing).toBeGreaterThan(0)
  await Promise.all(writes)
  await storage.client.command({ query: 'ALTER TABLE transition_rows DROP CONSTRAINT slow' })
})

/** The view, but that it dawdles before it looks at `rollouts`: what a busy machine may do at any moment. */
async function makeSlowView(): Promise<void> {
  const [view] = await storage.rows<{ ddl: string }>("SELECT create_table_query AS ddl FROM system.tables WHERE name = 'transitions'")
  const slowly =
    'FROM (SELECT * FROM (SELECT (SELECT sleep(0.4)) AS nap) AS first CROSS JOIN (SELECT * FROM default.rollouts FINAL) AS second)'
  const query = view!.ddl
    .replace('VIEW default.transitions ', 'VIEW default.transitions_slow ')
    .replace('FROM default.rollouts FINAL', slowly)
  expect(query).toContain(slowly)
  await storage.client.command({ query })
}

test('a reader beside a writer sees each rollout once, whole, and never none of it', async () => {
  const steps = 4
  const revision = (revision: number) =>
    ['a', 'b', 'c'].map((id) => ({ ...rollout({ rollout_id: `race-${id}`, calls: steps, covered_until: 1 }), revision }))
  await commit(...revision(1))
  await makeSlowView()
  let writing = true
  const writer = (async () => {
    for (let n = 2; n <= 12; n++) await commit(...revision(n))
    writing = false
  })()
  const seen: unknown[] = []
  const read = async (view: string) => {
    while (writing) {
      seen.push(
        ...(await storage.rows(`
          SELECT count() AS rollouts, max(revisions) AS most, min(steps) AS fewest, max(steps) AS longest
          FROM (SELECT uniqExact(revision) AS revisions, count() AS steps FROM ${view} WHERE startsWith(rollout_id, 'race-') GROUP BY rollout_id)`)),
      )
    }
  }
  await Promise.all([writer, read('transitions'), read('transitions_slow')])
  expect(seen.length).toBeGreaterThan(10)
  for (const view of seen) expect(view).toEqual({ rollouts: 3, most: 1, fewest: steps, longest: steps })
})

test('what is known of rollouts: their traces, and the highest revision, committed or not', async () => {
  const trace_ids = [traceIdOf('k1'), traceIdOf('k2')]
  await commit(one('known', { attempt_id: 'x', trace_ids, revision: 3 }))
  await storage.writeRevision([one('known', { attempt_id: 'x', revision: 4 })])
  const members = trace_ids.map((trace_id) => ({ trace_id, rollout_id: 'known', attempt_id: 'x' }))
  const byTrace = (a: { trace_id: string }, b: { trace_id: string }) => a.trace_id.localeCompare(b.trace_id)
  expect((await storage.members([traceIdOf('k2'), 'none'])).toSorted(byTrace)).toEqual(members)
  const id = { rollout_id: 'known', attempt_id: 'x' }
  expect((await storage.tracesOf([id, { rollout_id: 'none', attempt_id: '' }])).toSorted(byTrace)).toEqual(members)
  expect(await storage.lastRevisions([id, { rollout_id: 'none', attempt_id: '' }])).toEqual(new Map([[key('known', 'x'), 4]]))
})

test('a reward is in the ledger once, however often its rollout is revised', async () => {
  const reward = {
    ...one('earned').calls[0]!,
    kind: 'reward' as const,
    reward_id: 'reward-1',
    dimensions: [
      { name: 'quality', value: 0.75 },
      { name: 'verdict', value: null, label: 'good' },
    ],
    source: 'judge' as const,
    annotator: 'gpt',
    target: { response_id: 'resp-1' },
    given_at: 1_764_000_000_000,
  }
  await commit(one('earned', { rewards: [reward] }))
  await commit(one('earned', { rewards: [reward, { ...reward, reward_id: 'reward-2' }], revision: 2 }))
  expect(
    await storage.rows(
      'SELECT reward_id, target_response_id, name, value, label, source, annotator, given_at FROM rewards ORDER BY reward_id, name LIMIT 2',
    ),
  ).toEqual([
    {
      reward_id: 'reward-1',
      target_response_id: 'resp-1',
      name: 'quality',
      value: 0.75,
      label: '',
      source: 'judge',
      annotator: 'gpt',
      given_at: '2025-11-24 16:00:00.000',
    },
    {
      reward_id: 'reward-1',
      target_response_id: 'resp-1',
      name: 'verdict',
      value: null,
      label: 'good',
      source: 'judge',
      annotator: 'gpt',
      given_at: '2025-11-24 16:00:00.000',
    },
  ])
  expect(await storage.rows('SELECT reward_id, count() AS n FROM rewards GROUP BY reward_id ORDER BY reward_id')).toEqual([
    { reward_id: 'reward-1', n: 2 },
    { reward_id: 'reward-2', n: 2 },
  ])
  expect(await storage.rows('SELECT reward_id, rollout_id FROM reward_targets FINAL ORDER BY reward_id')).toEqual([
    { reward_id: 'reward-1', rollout_id: 'earned' },
    { reward_id: 'reward-2', rollout_id: 'earned' },
  ])
})
