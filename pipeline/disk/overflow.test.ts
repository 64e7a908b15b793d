import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { beforeEach, expect, onTestFinished, test } from 'vitest'

import { itemName } from '../../data/scan.ts'
import type { SpanBatch } from '../../data/span_batch.ts'
import { logBatch, spanBatch, testContext } from '../../test/conformance.ts'
import { Permanent, Refused } from '../component.ts'
import { openDiskQueue, type Room } from './disk_queue.ts'
import { overflow } from './overflow.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-overflow-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

/** An overflow in front of a taker that does as `outcome` says, and the names of the items that it took. */
async function opened(outcome: () => Promise<void>, { full = false } = {}) {
  const context = testContext()
  const room: Room = { take: () => !full, occupy() {}, give() {} }
  const disk = await openDiskQueue({ folder, fsync: true, segmentBytes: 1 << 20, room, context })
  const taken: string[] = []
  async function take(batches: readonly SpanBatch[]): Promise<void> {
    await outcome()
    taken.push(...batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => itemName(batch, i))))
  }
  return { ...overflow(disk, take, context, 50), taken, context }
}

const span = (name: string) => [spanBatch([{ id: name }])]
const away = (): Promise<void> => Promise.reject(new Refused('away'))

test('what can be taken is taken, and nothing touches the disk', async () => {
  const { consume, stop, taken, context } = await opened(async () => {})
  await consume(span('a'))
  expect([taken, context.gauges.exporter_queue_size!()]).toEqual([['a'], 0])
  await stop()
})

test('what cannot be taken now waits on disk, spans and log records in order, and nothing overtakes it', async () => {
  let outcome = away
  const { consume, stop, taken, context } = await opened(() => outcome())
  await consume(span('a'))
  await consume([...span('b'), logBatch()])
  outcome = async () => {}
  await consume(span('c'))
  expect(context.gauges.leyden_queued_items!()).toBe(4)
  await expect.poll(() => taken, { timeout: 5_000 }).toEqual(['a', 'b', 'leyden.rollout.end', 'c'])
  await expect.poll(() => context.gauges.exporter_queue_size!()).toBe(0)
  expect(context.lines.map(({ text }) => text)).toEqual([
    'warn Requests go to disk until they can be taken',
    'info All requests are taken that were kept on disk',
  ])
  await stop()
})

test('what waits at the end is taken in the next run', async () => {
  const first = await opened(away)
  await first.consume(span('a'))
  await first.stop()
  const second = await opened(async () => {})
  await expect.poll(() => second.taken).toEqual(['a'])
  await second.stop()
})

test('what would never be taken is refused, and does not wait', async () => {
  const { consume, stop, context } = await opened(() => Promise.reject(new Permanent('no')))
  await expect(consume(span('a'))).rejects.toThrow(new Permanent('no'))
  expect(context.gauges.exporter_queue_size!()).toBe(0)
  await stop()
})

test('whoever takes too long is not waited for', async () => {
  let free = () => {}
  const { consume, stop, taken, context } = await opened(() => new Promise<void>((resolve) => (free = resolve)))
  await consume(span('a'))
  expect(context.gauges.exporter_queue_size!()).toBe(1)
  free()
  await expect.poll(() => (free(), taken.length)).toBe(2)
  await stop()
})

test('whoever is not waited for reads memory of its own', async () => {
  let free = () => {}
  const { consume, stop, taken } = await opened(() => new Promise<void>((resolve) => (free = resolve)))
  const [batch] = span('a')
  await consume([batch!])
  batch!.body.fill(0xee)
  await expect.poll(() => (free(), taken)).toEqual(['a', 'a'])
  await stop()
})

test('a full disk refuses', async () => {
  const { consume, stop } = await opened(away, { full: true })
  await expect(consume(span('a'))).rejects.toThrow(new Refused('the queue on disk is full'))
  await stop()
})
