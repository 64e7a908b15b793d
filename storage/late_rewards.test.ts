import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import type { CreditSpec } from '../data/rollout.ts'
import { scan } from '../data/scan.ts'
import { scoreRecord } from '../data/score_body.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { dialects } from '../dialects/index.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { lateRewards, type LateRewards } from './late_rewards.ts'
import type { Stored } from './storage.ts'

let storage: TestStorage
let late: LateRewards
beforeAll(async () => {
  storage = await testStorage()
  const nothing = { isOpen: () => false, attach: () => {}, givenUp: () => {}, report: () => {} }
  late = lateRewards({ storage, dialects, joinKeys: [], wait: 60_000, ...nothing })
  const credit: CreditSpec = {
    ...{ method: 'identical', gamma: 1, lambda: 1, baseline: 'auto', normalize: 'none', min_group: 2 },
    ...{ reward_range: [0, 1], include_steps: false },
  }
  const both = ['a', 'b'].map((rollout_id) =>
    rollout({ rollout_id, attempt_id: '', task_id: '', group_id: 'pair', group_size: 2, calls: 1, reward: 1, credit }),
  )
  await storage.writeRevision(both)
  await storage.commit(both)
  while ((await versions()) === 0) await sleep(20)
})
afterAll(() => storage.close())

const versions = async () => (await storage.rows("SELECT 1 FROM credits WHERE group_id = 'pair'")).length
const ledger = async () => (await storage.rows<{ value: number }>('SELECT value FROM rewards ORDER BY value')).map(({ value }) => value)

function scores(rolloutId: string, ...values: number[]): SpanBatch {
  const records = values.map((value) => scoreRecord({ rolloutId, name: 'correct', value }, Date.UTC(2026, 6, 1)).record)
  return scan('logs', fromJson('logs', { resourceLogs: [{ scopeLogs: [{ logRecords: records }] }] })).batch
}

/** As a connector does while it stores a batch. */
async function arrive(batch: SpanBatch, stored: Promise<Stored>): Promise<void> {
  expect(late.expect(batch, [], stored)).toBe(true)
  const resolved = late.resolve()
  await stored.then(() => Array.from({ length: batch.count }, (_, i) => expect(late.take(batch, i)).toBe(true))).catch(() => {})
  await resolved
}

test('scores are looked up while they are stored, and count when they are', async () => {
  let isStored = false
  const stored = sleep(200).then(async (): Promise<Stored> => {
    expect([await versions(), await ledger()]).toEqual([1, []])
    isStored = true
    return { refused: [], rows: [[]] }
  })
  await arrive(scores('a', 0.25), stored)
  expect(isStored).toBe(true)
  expect([await versions(), await ledger()]).toEqual([2, [0.25]])
})

test('what was not stored has no part in credit, nor has one that was refused for good', async () => {
  await arrive(scores('a', 0.5), Promise.reject(new Error('away')))
  expect([await versions(), await ledger()]).toEqual([2, [0.25]])
  const batch = scores('a', 0.625, 0.75)
  await arrive(batch, Promise.resolve({ refused: [{ batch, i: 1 }], rows: [[]] }))
  expect([await versions(), await ledger()]).toEqual([3, [0.25, 0.625]])
})

test('one whose rollout is not known waits once it is stored', async () => {
  await arrive(scores('elsewhere', 1), Promise.reject(new Error('away')))
  expect(late.waiting).toBe(0)
  await arrive(scores('elsewhere', 1), Promise.resolve({ refused: [], rows: [[]] }))
  expect(late.waiting).toBe(1)
})
