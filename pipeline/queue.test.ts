import { expect, test } from 'vitest'

import { toJson } from '../data/otlp_json.ts'
import { readItem } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { rollout, spanBatch, testContext } from '../test/conformance.ts'
import { Permanent, Refused, type Item, type Signal } from './component.ts'
import { createSender } from './queue.ts'
import { readConfig, type Problem } from './schema.ts'
import { checkSending, sending } from './sending.ts'

/** Retries that do not keep a test waiting. */
const QUICK = { initial_interval: '1ms', max_elapsed_time: '1m' }
const one = () => [spanBatch([{ id: 'a' }])]

function read(options: object) {
  const problems: Problem[] = []
  const config = readConfig(sending, { retry_on_failure: QUICK, ...options }, [], problems)
  if (problems.length) throw new Error(JSON.stringify(problems))
  return config
}

/** A sender before an exporter that does `outcome` with each try. */
function setUp(
  options: object | undefined,
  outcome: (items: readonly Item[], abort: AbortSignal) => Promise<void>,
  signal: Signal = 'traces',
) {
  const tries: (readonly Item[])[] = []
  const context = testContext({ kind: 'exporter', id: 'test' })
  const stopping = new AbortController()
  const exporter = {
    async export(items: readonly Item[], _signal: Signal, abort: AbortSignal) {
      tries.push(items)
      await outcome(items, abort)
    },
  }
  const sender = createSender(exporter, signal, options && read(options), context, stopping.signal)
  return { ...sender, tries, context, stop: () => stopping.abort() }
}

/** Fails so many times, then succeeds. */
function failing(times: number, error: Error = new Error('away')) {
  return async () => {
    if (times-- > 0) throw error
  }
}

/** Succeeds when it is told to. */
function held() {
  let free = () => {}
  const freed = new Promise<void>((resolve) => (free = resolve))
  return { outcome: () => freed, free }
}

test('a failure that may pass is tried again, and the sender only hears of the success', async () => {
  const { send, tries, context } = setUp({}, failing(2))
  await send(one())
  expect(tries).toHaveLength(3)
  expect(context.counts).toEqual({ exporter_sent_spans: 1 })
  expect(context.lines.map((line) => line.text)).toEqual(Array(2).fill('info Exporting failed. Will retry the request after interval.'))
  expect(context.problem()).toBeNull()
})

test('a permanent failure is not tried again', async () => {
  const { send, tries, context } = setUp({}, failing(1, new Permanent('bad data')))
  await expect(send(one())).rejects.toThrow(Permanent)
  expect(tries).toHaveLength(1)
  expect(context.counts).toEqual({ exporter_send_failed_spans: 1 })
  expect(context.problem()).toBeNull()
})

test('after max_elapsed_time the request is given up, as a refusal that says when to come again', async () => {
  const { send, context } = setUp({ retry_on_failure: { initial_interval: '2ms', max_elapsed_time: '10ms' } }, failing(1_000))
  const error = await send(one()).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(Refused)
  expect((error as Refused).message).toBe('no more retries left: away')
  expect((error as Refused).retryAfterMs).toBeGreaterThan(0)
  expect(context.counts).toEqual({ exporter_send_failed_spans: 1 })
  expect(context.problem()).toBe('no more retries left: away')
})

test('the wait before a retry is at least what the refusal asks for', async () => {
  const { send, context } = setUp({}, failing(1, new Refused('busy', 60)))
  await send(one())
  expect(context.lines[0]?.fields).toMatchObject({ error: 'busy', interval: '0.060s' })
})

test('without retries the first failure is the last', async () => {
  const { send, tries } = setUp({ retry_on_failure: { enabled: false } }, failing(1))
  await expect(send(one())).rejects.toThrow(/^away$/)
  expect(tries).toHaveLength(1)
})

test('an attempt that outlasts the timeout is told to stop and counts as failed', async () => {
  const aborted: unknown[] = []
  const hang = (_: unknown, abort: AbortSignal) =>
    new Promise<void>((_resolve, reject) => {
      abort.addEventListener('abort', () => {
        aborted.push(abort.reason)
        reject(new Error('aborted'))
      })
    })
  const { send } = setUp({ timeout: '10ms', retry_on_failure: { enabled: false } }, hang)
  await expect(send(one())).rejects.toThrow('timed out after 10 ms')
  expect(aborted).toHaveLength(1)
})

test('an attempt that outlasts the timeout is waited for: until it ends, it reads what it was given', async () => {
  const { outcome, free } = held()
  const { send } = setUp({ timeout: '1ms', retry_on_failure: { enabled: false } }, async (_, abort) => {
    await outcome()
    abort.throwIfAborted()
  })
  let settled = false
  const sent = send(one()).finally(() => (settled = true))
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(settled).toBe(false)
  free()
  await expect(sent).rejects.toThrow('timed out after 1 ms')
})

test('an exporter without these options is called directly, and its failures are passed on as they are', async () => {
  const { send, tries, context } = setUp(undefined, failing(1))
  await expect(send(one())).rejects.toThrow(/^away$/)
  await send(one())
  expect(tries).toHaveLength(2)
  expect(context.counts).toEqual({ exporter_send_failed_spans: 1, exporter_sent_spans: 1 })
})

test('no more than num_consumers requests are under way', async () => {
  const { outcome, free } = held()
  const { send, tries, context } = setUp({ sending_queue: { num_consumers: 2 } }, outcome)
  const sent = Array.from({ length: 5 }, () => send(one()))
  await Promise.resolve()
  expect(tries).toHaveLength(2)
  expect([context.gauges.exporter_queue_size?.(), context.gauges.exporter_queue_capacity?.()]).toEqual([5, 1000])
  free()
  await Promise.all(sent)
  expect(tries).toHaveLength(5)
  expect(context.gauges.exporter_queue_size?.()).toBe(0)
})

test.each([
  ['requests', 2],
  ['items', 2],
  ['bytes', 2 * one()[0]!.body.length],
])('a full queue, counted in %s, refuses', async (sizer, queue_size) => {
  const { outcome, free } = held()
  const { send, context } = setUp({ sending_queue: { sizer, queue_size } }, outcome)
  const sent = [send(one()), send(one())]
  await expect(send(one())).rejects.toThrow(new Refused('sending queue is full'))
  expect(context.counts).toEqual({ exporter_enqueue_failed_spans: 1 })
  free()
  await Promise.all(sent)
  await send(one())
})

test('a full queue makes the sender wait when block_on_overflow is set', async () => {
  const { outcome, free } = held()
  const { send, tries } = setUp({ sending_queue: { queue_size: 1, block_on_overflow: true } }, outcome)
  const sent = [send(one()), send(one()), send(one())]
  await new Promise(setImmediate)
  expect(tries).toHaveLength(1)
  free()
  await Promise.all(sent)
  expect(tries).toHaveLength(3)
})

test('a request that the queue could never hold is refused for good', async () => {
  const { send } = setUp({ sending_queue: { sizer: 'items', queue_size: 1 } }, failing(0))
  await expect(send([spanBatch([{ id: 'a' }, { id: 'b' }])])).rejects.toThrow(
    new Permanent('a request of 2 items does not fit a queue of 1'),
  )
})

test('without wait_for_result the sender goes on at once, and a failure is counted and logged', async () => {
  const { send, drain, context } = setUp({ sending_queue: { wait_for_result: false } }, failing(1, new Permanent('bad data')))
  await send(one())
  await drain()
  expect(context.counts).toEqual({ exporter_send_failed_spans: 1 })
  expect(context.lines.map((line) => line.text)).toEqual(['error Exporting failed. Dropping data.'])
})

test('what is not waited for is kept in memory of its own', async () => {
  const { outcome, free } = held()
  const { send, drain, tries } = setUp({ sending_queue: { wait_for_result: false } }, outcome)
  const batch = spanBatch([{ id: 'a', name: 'kept' }])
  await send([batch])
  const bytes = [batch.body, ...batch.resources.map((resource) => resource.bytes), ...batch.scopes.map((scope) => scope.bytes)]
  for (const part of bytes) part.fill(0xee)
  free()
  await drain()
  expect(readItem(tries[0]![0] as SpanBatch, 0)).toEqual(readItem(spanBatch([{ id: 'a', name: 'kept' }]), 0))
  expect(toJson(tries[0]![0] as SpanBatch)).toEqual(toJson(spanBatch([{ id: 'a', name: 'kept' }])))
})

test('rollouts are waited for, whatever wait_for_result says', async () => {
  const { send } = setUp({ sending_queue: { wait_for_result: false } }, failing(1, new Permanent('bad data')), 'rollouts')
  await expect(send([rollout()])).rejects.toThrow('bad data')
})

test('a batch waits for min_size, and answers all its requests together', async () => {
  const { send, tries, context } = setUp({ sending_queue: { batch: { min_size: 3, flush_timeout: '1h' } } }, failing(0))
  await Promise.all([send(one()), send(one()), send(one())])
  expect(tries.map((items) => items.length)).toEqual([3])
  expect(context.counts).toEqual({ exporter_sent_spans: 3 })
})

test('a batch is sent after flush_timeout, however small', async () => {
  const { send, tries } = setUp({ sending_queue: { batch: { min_size: 100, flush_timeout: '5ms' } } }, failing(0))
  await send(one())
  await Promise.all([send(one()), send(one())])
  expect(tries.map((items) => items.length)).toEqual([1, 2])
})

test('a batch is not larger than max_size, and cuts no request', async () => {
  const { send, tries } = setUp({ sending_queue: { batch: { min_size: 4, max_size: 4, flush_timeout: '5ms' } } }, failing(0))
  const three = [spanBatch([{ id: 'a' }, { id: 'b' }, { id: 'c' }])]
  const five = [spanBatch(['a', 'b', 'c', 'd', 'e'].map((id) => ({ id })))]
  await Promise.all([send(three), send(five), send(one()), send(three)])
  expect(tries.map((items) => items.map((item) => 'count' in item && item.count))).toEqual([[3], [5], [1, 3]])
})

test('one bad request does not cost the others of its batch', async () => {
  const good = rollout({ rollout_id: 'good' })
  const bad = rollout({ rollout_id: 'bad' })
  const { send, context } = setUp(
    { sending_queue: { batch: { min_size: 3, flush_timeout: '1h' } } },
    async (items) => {
      if (items.includes(bad)) throw new Permanent('bad data')
    },
    'rollouts',
  )
  const results = await Promise.allSettled([send([good]), send([bad]), send([good])])
  expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(context.counts).toEqual({ exporter_sent_rollouts: 2, exporter_send_failed_rollouts: 1 })
})

test('stopping ends the wait before a retry: one last try decides', async () => {
  const slow = { retry_on_failure: { initial_interval: '1h', max_interval: '1h', max_elapsed_time: '0s' } }
  const recovering = setUp(slow, failing(1))
  const dead = setUp(slow, failing(1_000))
  const results = Promise.allSettled([recovering.send(one()), dead.send(one())])
  await new Promise(setImmediate)
  recovering.stop()
  dead.stop()
  expect((await results).map((result) => result.status)).toEqual(['fulfilled', 'rejected'])
  expect([recovering.tries.length, dead.tries.length]).toEqual([2, 2])
})

test('stopping sends what waits for a batch to fill up, and draining lets nothing more in', async () => {
  const { send, stop, drain, tries } = setUp({ sending_queue: { num_consumers: 1, batch: { flush_timeout: '1h' } } }, failing(0))
  const sent = [send(one()), send(one())]
  await Promise.resolve()
  expect(tries).toHaveLength(0)
  stop()
  await drain()
  await Promise.all(sent)
  expect(tries).toHaveLength(1)
  await expect(send(one())).rejects.toThrow(Refused)
})

test.each([
  [
    { retry_on_failure: { initial_interval: '10s', max_elapsed_time: '5s' } },
    "'max_elapsed_time' must not be less than 'initial_interval'",
  ],
  [{ sending_queue: { num_consumers: 0 } }, '`num_consumers` must be positive'],
  [{ sending_queue: { queue_size: 0 } }, '`queue_size` must be positive'],
  [{ sending_queue: { sizer: 'items', batch: {} } }, '`min_size` must be less than or equal to `queue_size`'],
  [{ sending_queue: { batch: { min_size: 10, max_size: 5 } } }, '`max_size` (5) must be greater or equal to `min_size` (10)'],
])('the options %j are refused', (options, message) => {
  expect(checkSending(read(options)).map((problem) => problem.message)).toEqual([message])
})

test('what is switched off is not checked', () => {
  expect(
    checkSending(read({ retry_on_failure: { enabled: false, max_elapsed_time: '1s' }, sending_queue: { enabled: false, queue_size: 0 } })),
  ).toEqual([])
})
