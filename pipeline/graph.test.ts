import { setTimeout as sleep } from 'node:timers/promises'

import { afterEach, beforeEach, expect, test } from 'vitest'

import type { Rollout } from '../data/rollout.ts'
import { rollout, spanBatch } from '../test/conformance.ts'
import {
  connector,
  exporter,
  extension,
  Permanent,
  processor,
  receiver,
  Refused,
  type Item,
  type Kind,
  type Outputs,
  type Signal,
} from './component.ts'
import type { Plan, Unit } from './config.ts'
import { startGraph, type Running } from './graph.ts'
import { readConfig, text } from './schema.ts'
import { sending } from './sending.ts'
import { telemetryFields } from './service.ts'
import { createTelemetry, type Telemetry } from './telemetry.ts'

const SIGNALS: readonly Signal[] = ['traces', 'logs', 'rollouts']

/** What happened, in order: `start exporter a`, `stop receiver r` … */
let events: string[]
/** What each receiver may send to, by id. */
let outputs: Record<string, Outputs>
/** What each exporter was given, by id. */
let exported: Record<string, Item[]>
/** What an exporter, processor or connector does instead of succeeding, by id. */
let doing: Record<string, (items: readonly Item[]) => unknown>
let telemetry: Telemetry
let running: Running | undefined

beforeEach(async () => {
  events = []
  outputs = {}
  exported = {}
  doing = {}
  running = undefined
  telemetry = await createTelemetry(readConfig(telemetryFields, { metrics: { level: 'none' }, logs: { output_paths: [] } }, [], []))
})
afterEach(async () => {
  await running?.shutdown().catch(() => {})
  await telemetry.shutdown()
})

const life = (kind: Kind, id: string) => ({
  async start() {
    events.push(`start ${kind} ${id}`)
    await doing[`start ${id}`]?.([])
  },
  async shutdown() {
    events.push(`stop ${kind} ${id}`)
    await doing[`stop ${id}`]?.([])
  },
})

const components = {
  receiver: receiver({
    type: 'pusher',
    summary: 'Pushes what the test gives it.',
    signals: SIGNALS,
    config: {},
    create: (_, { id }) => ({
      ...life('receiver', id),
      async start(next) {
        await life('receiver', id).start()
        outputs[id] = next
      },
    }),
  }),
  processor: processor({
    type: 'step',
    summary: 'Does what the test says.',
    signals: SIGNALS,
    config: {},
    create(_, { id }) {
      events.push(`create processor ${id}`)
      return { ...life('processor', id), process: (item: Item) => (doing[id] ? doing[id]([item]) : item) }
    },
  }),
  exporter: exporter({
    type: 'sink',
    summary: 'Keeps what it gets.',
    signals: SIGNALS,
    config: { ...sending },
    create(_, { id }) {
      events.push(`create exporter ${id}`)
      return {
        ...life('exporter', id),
        async export(items: readonly Item[]) {
          await doing[id]?.(items)
          exported[id] = [...(exported[id] ?? []), ...items]
        },
      }
    },
  }),
  connector: connector({
    type: 'joiner',
    summary: 'Makes a rollout of every batch, and one more when it stops.',
    signals: ['traces', 'logs'],
    to: ['rollouts'],
    config: {},
    create(_, { id }) {
      let next: Outputs
      return {
        async start(to) {
          await life('connector', id).start()
          next = to
        },
        async consume(batches, signal) {
          await next.rollouts!(batches.map(() => rollout({ rollout_id: signal })))
        },
        async shutdown() {
          await next.rollouts!([rollout({ rollout_id: 'last' })])
          await life('connector', id).shutdown()
        },
      }
    },
  }),
  extension: extension({
    type: 'helper',
    summary: 'Says when it is called.',
    config: { says: text('What it offers.', { default: 'hello' }) },
    create: ({ says }, { id }) => ({
      ...life('extension', id),
      ready: () => void events.push(`ready ${id}`),
      notReady: () => void events.push(`not ready ${id}`),
      api: says,
    }),
  }),
}

/** A plan of pipelines `receivers | processors | exporters`; ids that begin with j are connectors. */
function planOf(pipelines: Record<string, string>, options: Record<string, object> = {}, more: Partial<Plan['service']> = {}): Plan {
  const parsed = Object.entries(pipelines).map(([id, line]) => {
    const [receivers, processors, exporters] = line.split('|').map((part) => part.split(' ').filter(Boolean)) as [
      string[],
      string[],
      string[],
    ]
    return { id, signal: id.split('/')[0] as Signal, receivers, processors, exporters }
  })
  const joins = (id: string) => id.startsWith('j')
  function units<K extends Kind>(kind: K, ids: readonly string[]): Map<string, Unit<K>> {
    const component = components[kind] as unknown as Unit<K>['component']
    const quick = kind === 'exporter' ? { retry_on_failure: { initial_interval: '1ms' } } : {}
    return new Map(ids.map((id) => [id, { id, component, config: readConfig(component.config, { ...quick, ...options[id] }, [], []) }]))
  }
  const receivers = parsed.flatMap((pipeline) => pipeline.receivers)
  return {
    receivers: units(
      'receiver',
      receivers.filter((id) => !joins(id)),
    ),
    processors: units(
      'processor',
      parsed.flatMap((pipeline) => pipeline.processors),
    ),
    exporters: units(
      'exporter',
      parsed.flatMap((pipeline) => pipeline.exporters).filter((id) => !joins(id)),
    ),
    connectors: units('connector', receivers.filter(joins)),
    extensions: units('extension', more.extensions ?? []),
    service: { extensions: [], pipelines: parsed, telemetry: readConfig(telemetryFields, {}, [], []), shutdown_timeout: 5_000, ...more },
  }
}

async function run(...plan: Parameters<typeof planOf>): Promise<Running> {
  return (running = await startGraph(planOf(...plan), telemetry))
}

const ids = (id: string) => exported[id]?.map((item) => (item as Rollout).rollout_id)

test('a receiver and an exporter are one instance however often they are named, a processor is one per pipeline', async () => {
  await run({ traces: 'r | p | x', 'traces/2': 'r | p | x', logs: 'r | | x' })
  expect(events.filter((event) => event.startsWith('create'))).toEqual(['create exporter x', 'create processor p', 'create processor p'])
  expect(events.filter((event) => event === 'start receiver r')).toHaveLength(1)
  expect(Object.keys(outputs.r!)).toEqual(['traces', 'logs'])
})

test('a receiver of two pipelines sends each item to both', async () => {
  await run({ traces: 'r | | x', 'traces/2': 'r | p | y' })
  doing.p = ([item]) => ({ ...(item as object), seen: true })
  const batch = spanBatch()
  await outputs.r!.traces!([batch])
  expect(exported).toEqual({ x: [batch], y: [{ ...batch, seen: true }] })
})

test('an item that a processor drops goes no further', async () => {
  await run({ traces: 'r | p q | x' })
  doing.p = () => null
  doing.q = () => expect.fail('must not be called')
  await outputs.r!.traces!([spanBatch()])
  expect(exported).toEqual({})
})

test('a connector joins pipelines of different signals', async () => {
  await run({ traces: 'r | | j', logs: 'r | | j', rollouts: 'j | | x' })
  await outputs.r!.traces!([spanBatch()])
  await outputs.r!.logs!([spanBatch()])
  expect(ids('x')).toEqual(['traces', 'logs'])
})

test('what is sent to starts before what sends, and stops after it', async () => {
  await (await run({ traces: 'r | p q | j x', rollouts: 'j | s | y' }, {}, { extensions: ['e', 'f'] })).shutdown()
  running = undefined
  expect(events.filter((event) => !event.startsWith('create'))).toEqual([
    ...['start extension e', 'start extension f'],
    ...['start exporter y', 'start processor s', 'start connector j', 'start exporter x', 'start processor q', 'start processor p'],
    ...['start receiver r', 'ready e', 'ready f', 'not ready e', 'not ready f', 'stop receiver r'],
    ...['stop processor p', 'stop processor q', 'stop exporter x', 'stop connector j', 'stop processor s', 'stop exporter y'],
    ...['stop extension f', 'stop extension e'],
  ])
})

test('what a connector still holds when it stops is exported', async () => {
  await (await run({ traces: 'r | | j', rollouts: 'j | p | x' })).shutdown()
  expect(ids('x')).toEqual(['last'])
})

test('a component that cannot start is named, and what had started is stopped', async () => {
  doing['start r'] = () => Promise.reject(new Error('listen tcp 127.0.0.1:4317: bind: address already in use'))
  await expect(run({ traces: 'r | | x' }, {}, { extensions: ['e'] })).rejects.toThrow(
    'cannot start pipelines: failed to start "r" receiver: listen tcp 127.0.0.1:4317: bind: address already in use',
  )
  expect(events).toEqual([
    'start extension e',
    'create exporter x',
    'start exporter x',
    'start receiver r',
    'not ready e',
    'stop exporter x',
    'stop extension e',
  ])
})

test('a push resolves only when the exporter has taken the items', async () => {
  await run({ traces: 'r | p | x' })
  let free = () => {}
  doing.x = () => new Promise<void>((resolve) => (free = resolve))
  let answered = false
  const pushed = outputs.r!.traces!([spanBatch()]).then(() => (answered = true))
  await sleep(5)
  expect(answered).toBe(false)
  free()
  await pushed
})

test('shutdown exports what is queued', async () => {
  await run({ traces: 'r | | x' }, { x: { sending_queue: { wait_for_result: false, batch: { flush_timeout: '1h' } } } })
  await outputs.r!.traces!([spanBatch()])
  expect(exported).toEqual({})
  await running!.shutdown()
  expect(exported.x).toHaveLength(1)
})

test('a request that waits for its batch to fill up does not keep its receiver from stopping', async () => {
  await run({ traces: 'r | | x' }, { x: { sending_queue: { batch: { flush_timeout: '1h' } } } })
  const pushed = outputs.r!.traces!([spanBatch()])
  doing['stop r'] = () => pushed
  await running!.shutdown()
  expect(exported.x).toHaveLength(1)
})

test('a failing branch is tried again without sending to the others twice', async () => {
  await run({ traces: 'r | | x', 'traces/2': 'r | p | y' })
  let times = 2
  doing.p = ([item]) => {
    if (times-- > 0) throw new Refused('not now', 1)
    return item
  }
  await outputs.r!.traces!([spanBatch()])
  expect([exported.x?.length, exported.y?.length]).toEqual([1, 1])
})

test('when every branch fails the sender is told at once', async () => {
  await run({ traces: 'r | p | x', 'traces/2': 'r | p | y' })
  doing.p = () => Promise.reject(new Refused('not now'))
  await expect(outputs.r!.traces!([spanBatch()])).rejects.toThrow(new Refused('not now'))
})

test('a branch that gives up is not tried again, and the sender gets an error after which it may send again', async () => {
  await run({ traces: 'r | | x y z' }, { y: { retry_on_failure: { initial_interval: '1ms', max_elapsed_time: '5ms' } } })
  let tries = 0
  doing.y = () => {
    tries++
    throw new Error('away')
  }
  doing.z = () => Promise.reject(new Permanent('bad data'))
  await expect(outputs.r!.traces!([spanBatch()])).rejects.toThrow('no more retries left: away')
  const before = tries
  await sleep(5)
  expect(tries).toBe(before)
  expect(exported.x).toHaveLength(1)
})

test('a processor that breaks costs its items, for good, and names itself', async () => {
  await run({ traces: 'r | p | x' })
  doing.p = () => (undefined as never as { no: string }).no
  await expect(outputs.r!.traces!([spanBatch()])).rejects.toThrow(Permanent)
  await expect(outputs.r!.traces!([spanBatch()])).rejects.toThrow('processor "p" failed: ')
})

test('shutdown ends waits for retries with one last try', async () => {
  await run({ traces: 'r | | x' }, { x: { retry_on_failure: { initial_interval: '1h', max_elapsed_time: '0s' } } })
  let times = 1
  doing.x = () => {
    if (times-- > 0) throw new Error('away')
  }
  const pushed = outputs.r!.traces!([spanBatch()])
  await sleep(5)
  doing['stop r'] = () => pushed
  await running!.shutdown()
  expect(exported.x).toHaveLength(1)
})

test('shutdown is bounded, and says what did not finish and what failed', async () => {
  await run({ traces: 'r | p | x' }, {}, { shutdown_timeout: 20 })
  doing['stop r'] = () => new Promise(() => {})
  doing['stop p'] = () => Promise.reject(new Error('broken'))
  await expect(running!.shutdown()).rejects.toThrow(
    'shutdown was not clean: receiver "r" did not finish within shutdown_timeout; processor "p" ',
  )
  expect(events.slice(-3)).toEqual(['stop receiver r', 'stop processor p', 'stop exporter x'])
})

test('shutdown twice is shutdown once', async () => {
  await run({ traces: 'r | | x' })
  await Promise.all([running!.shutdown(), running!.shutdown()])
  expect(events.filter((event) => event.startsWith('stop'))).toEqual(['stop receiver r', 'stop exporter x'])
})

test('a reload exports what was accepted and goes on with the new plan', async () => {
  await run({ traces: 'r | | x' })
  expect(await running!.reload(planOf({ traces: 'r | | y' }))).toBe(true)
  await outputs.r!.traces!([spanBatch()])
  expect(Object.keys(exported)).toEqual(['y'])
})

test('a reload of the same plan touches nothing', async () => {
  await run({ traces: 'r | | x' })
  expect(await running!.reload(planOf({ traces: 'r | | x' }))).toBe(true)
  expect(events.filter((event) => event.startsWith('stop'))).toEqual([])
})

test('when the new plan does not start, the old one runs again', async () => {
  await run({ traces: 'r | | x' })
  doing['start y'] = () => Promise.reject(new Error('away'))
  expect(await running!.reload(planOf({ traces: 'r | | y' }))).toBe(false)
  await outputs.r!.traces!([spanBatch()])
  expect(Object.keys(exported)).toEqual(['x'])
})

test('when neither plan starts, the reload says why', async () => {
  await run({ traces: 'r | | x' })
  doing['start r'] = () => Promise.reject(new Error('port taken'))
  await expect(running!.reload(planOf({ traces: 'r | | y' }))).rejects.toThrow(
    'cannot start pipelines: failed to start "r" receiver: port taken',
  )
})
