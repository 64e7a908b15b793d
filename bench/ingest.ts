// From OTLP to ClickHouse, through Leyden and through the OpenTelemetry Collector. Each cell has fresh processes and an empty store,
// which get whole passes over the load: first to warm up, since code is compiled as it runs, and then about as many again as fill the
// time. Wall time ends with the last acknowledgement, CPU time when everything is in ClickHouse: for the Collector, which acknowledges
// from memory, that is later.

import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouse } from './clickhouse.ts'
import { findCollector, startCollector } from './collector.ts'
import { findGenerator, goDriver, ownDriver, type Driver, type Sent } from './drive.ts'
import { startLeyden } from './leyden.ts'
import { makeLoad, type Load } from './load.ts'
import { cpuSeconds, peakMegabytes } from './processes.ts'
import { recordedLoad } from './recorded_load.ts'
import { formatTable } from './table.ts'

export interface IngestOptions {
  readonly batches: readonly number[]
  /** http, grpc, and grpc-js for Leyden's other gRPC server. */
  readonly transports: readonly string[]
  /** plain and tokens, whose calls carry token ids; and both as recorded with the Collector. */
  readonly loads: readonly string[]
  /** storing, whole and collector. */
  readonly what: readonly string[]
  readonly seconds: number
  readonly rounds: number
  /** Requests under way at once; 0: as many as hold 10,000 spans, 32 at least and 1,000 at most. */
  readonly inFlight: number
  /** Folder of a built Collector; '' for none. */
  readonly collector: string
}

const SPANS = 8_192
const SPANS_IN_FLIGHT = 10_000
const DRAIN_MS = 120_000
/** At least so many go before, since code is compiled as it runs: after 100,000 that took a seventh of the CPU, after 200,000 a thirteenth. */
const WARM_SPANS = 262_144
/** But not for longer, where few requests are under way. */
const WARM_SECONDS = 30
/** Of the passes that are sent without a pause: what a server gets behind with grows its heap, and with that what it takes to collect it. */
const MOST_BYTES = 2 ** 29

interface Cell {
  readonly kind: string
  readonly transport: string
  readonly batch: number
}

/** What is measured: how it is started, and what tells that all it was sent is in ClickHouse. */
interface Candidate {
  readonly what: string
  readonly name: string
  start(transport: string): Promise<Target>
  /** Rows stored, and rows that they become. */
  readonly stored: string
  /** How many of them there are when a pass is through. */
  readonly expects: (load: Load) => readonly [spans: number, made: number]
}

interface Target {
  readonly grpc: string
  readonly http: string
  readonly pid: number
  readonly clickhouse: ClickHouse
  /** Bytes of its heap that were allocated so far, where that is known. */
  allocated?(): Promise<number>
  stop(): Promise<void>
}

const SPANS_ONLY = 'SELECT count(), 0 FROM spans'
const CANDIDATES: readonly Candidate[] = [
  {
    what: 'storing',
    name: 'Leyden, storing',
    start: (transport) => startLeyden({ transport: ofLeyden(transport), rootGrace: '1h' }),
    stored: SPANS_ONLY,
    expects: ({ spans }) => [spans, 0],
  },
  {
    what: 'whole',
    name: 'Leyden, whole',
    start: (transport) => startLeyden({ transport: ofLeyden(transport) }),
    stored: 'SELECT (SELECT count() FROM spans), (SELECT count() FROM transitions)',
    expects: ({ spans, calls }) => [spans, calls],
  },
]

const ofLeyden = (transport: string): string => (transport === 'grpc-js' ? transport : 'auto')

const collectorOf = (binary: string): Candidate => ({
  what: 'collector',
  name: 'Collector',
  start: () => startCollector(binary),
  stored: 'SELECT count(), 0 FROM otel_traces',
  expects: ({ spans }) => [spans, 0],
})

interface Result extends Sent {
  readonly perSecond: number
  readonly perCpu: number
  readonly clickhousePerCpu: number
  /** NaN where that is not known. */
  readonly allocated: number
  readonly megabytes: number
  readonly stored: number
  readonly calls: number
  readonly made: number
}

export async function ingest(options: IngestOptions): Promise<void> {
  const { batches, transports, loads, what, rounds, collector } = options
  const binary = collector === '' ? null : await findCollector(collector)
  if (!binary)
    console.log(`${collector === '' ? 'No Collector was named (--collector)' : `${collector} holds no Collector`}: Leyden alone.\n`)
  const candidates = [...CANDIDATES, ...(binary ? [collectorOf(binary)] : [])].filter((candidate) => what.includes(candidate.what))
  const rows: (string | number)[][] = []
  for (const kind of loads) {
    for (const batch of batches) {
      const load = await loadOf(kind, batch)
      for (const transport of transports) rows.push(...(await compare({ kind, transport, batch }, load)))
    }
  }
  console.log(formatTable(HEADER, rows))

  function loadOf(kind: string, batch: number): Load | Promise<Load> {
    const tokens = kind.endsWith('tokens')
    return kind.startsWith('recorded') ? recordedLoad(collector, batch, tokens) : makeLoad(batch, SPANS, tokens)
  }

  /** In turn, so that what else the machine does hits all of them alike. */
  async function compare(cell: Cell, load: Load): Promise<(string | number)[][]> {
    const results = candidates.map((): Result[] => [])
    for (let round = 0; round < rounds; round++) {
      for (const [i, candidate] of candidates.entries()) results[i]!.push(await measure(candidate, cell, load, options))
    }
    const peer = candidates.at(-1)?.what === 'collector' ? results.at(-1)! : null
    return candidates.map(({ name }, i) => [name, cell.kind, cell.transport, cell.batch, ...summary(results[i]!, peer)])
  }
}

const HEADER = [
  ...['what', 'load', 'transport', 'spans a request', 'spans per CPU-second', 'x Collector', 'spans/s', 'peak MB', 'x Collector'],
  'bytes allocated a span',
  ...['spans per CPU-second of ClickHouse', 'ack p50 ms', 'p99 ms', 'failed', 'acknowledged', 'stored', 'policy calls', 'transitions'],
]

/** Medians of the rounds; ratios are medians of the ratios of each round. */
function summary(results: readonly Result[], peer: readonly Result[] | null): (string | number)[] {
  const of = (pick: (result: Result) => number) => Math.round(median(results.map(pick)))
  const ratio = (pick: (result: Result) => number) =>
    peer ? median(results.map((result, i) => pick(result) / pick(peer[i]!))).toFixed(2) : ''
  const all = (pick: (result: Result) => number) => results.reduce((sum, result) => sum + pick(result), 0)
  return [
    ...[of(({ perCpu }) => perCpu), ratio(({ perCpu }) => perCpu), of(({ perSecond }) => perSecond)],
    ...[of(({ megabytes }) => megabytes), ratio(({ megabytes }) => megabytes)],
    known(of(({ allocated, acknowledged }) => allocated / acknowledged)),
    of(({ clickhousePerCpu }) => clickhousePerCpu),
    ...[of(({ p50 }) => p50), of(({ p99 }) => p99), all(({ failed }) => failed), all(({ acknowledged }) => acknowledged)],
    ...[all(({ stored }) => stored), all(({ calls }) => calls), all(({ made }) => made)],
  ]
}

const known = (value: number): number | string => (Number.isNaN(value) ? '' : value)

async function measure(candidate: Candidate, { transport, batch }: Cell, load: Load, options: IngestOptions): Promise<Result> {
  const target = await candidate.start(transport)
  const driver = await driverFor(options, target, transport, batch, load)
  const spent = async () => ({
    own: await cpuSeconds(target.pid),
    clickhouse: await cpuSeconds(target.clickhouse.pid),
    allocated: (await target.allocated?.()) ?? NaN,
  })
  try {
    let done = 0
    /** Sends so many passes, and waits until they are in ClickHouse. */
    async function send(passes: number) {
      const sent = await driver.send(done, passes)
      done += passes
      const [stored, made] = await settled(candidate, target, load, done)
      return { ...sent, stored, made }
    }
    const passesOf = ({ acknowledged, wall }: Sent, seconds: number) => (seconds * acknowledged) / wall / load.spans
    const passesIn = (sent: Sent) => clamp(passesOf(sent, options.seconds), MOST_BYTES / load.bytes)
    let warm = await send(1)
    const warming = Math.max(passesIn(warm), clamp(passesOf(warm, WARM_SECONDS), Math.ceil(WARM_SPANS / load.spans)))
    const portion = clamp(warming, MOST_BYTES / load.bytes)
    while (done <= warming) warm = await send(portion)
    const before = await spent()
    const passes = passesIn(warm)
    const sent = await send(passes)
    const after = await spent()
    return {
      ...sent,
      perSecond: sent.acknowledged / sent.wall,
      perCpu: sent.acknowledged / (after.own - before.own),
      clickhousePerCpu: sent.acknowledged / (after.clickhouse - before.clickhouse),
      allocated: after.allocated - before.allocated,
      megabytes: await peakMegabytes(target.pid),
      stored: sent.stored - warm.stored,
      calls: passes * load.calls,
      made: sent.made - warm.made,
    }
  } finally {
    driver.close()
    await target.stop()
  }
}

/** Whole ones, at least one. */
const clamp = (passes: number, most: number): number => Math.max(1, Math.floor(Math.min(Math.round(passes), most)))

async function driverFor(options: IngestOptions, target: Target, transport: string, batch: number, load: Load): Promise<Driver> {
  const { collector: folder } = options
  const inFlight = options.inFlight || Math.min(1_000, Math.max(32, Math.ceil(SPANS_IN_FLIGHT / batch)))
  const addresses = { grpc: target.grpc, http: new URL(target.http).host }
  const generator = folder === '' ? null : await findGenerator(folder)
  return generator
    ? goDriver(generator, target.clickhouse.folder, load, addresses, transport, inFlight)
    : ownDriver(load, addresses, transport, inFlight)
}

/** Waits until everything that so many passes sent is in ClickHouse, or gives up. */
async function settled({ stored, expects }: Candidate, { clickhouse }: Target, load: Load, passes: number): Promise<[number, number]> {
  const [spans, made] = expects(load)
  for (const deadline = Date.now() + DRAIN_MS; ; await sleep(200)) {
    const [rows, becameOf] = (await clickhouse.numbers(stored)) as [number, number]
    if ((rows >= spans * passes && becameOf >= made * passes) || Date.now() > deadline) return [rows, becameOf]
  }
}

function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort()
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
