// A long load at a steady rate on a Leyden that is killed again and again. What is not acknowledged is sent again, as an exporter does,
// so at the end everything has to be there: acknowledged = stored, each span once. Its ClickHouse lives on between kills.

import { setTimeout as sleep } from 'node:timers/promises'

import { startLeyden, type Leyden } from './leyden.ts'
import { freshBody, makeLoad } from './load.ts'
import { megabytes } from './processes.ts'
import { grpcSender, httpSender } from './send.ts'
import { formatTable } from './table.ts'

export interface SoakOptions {
  readonly transports: readonly string[]
  readonly minutes: number
  /** Spans a second. */
  readonly rate: number
}

const SPANS = 8_192
const BATCH = 64
const KILL_EVERY_MS = 30_000
/** Behind the steady rate after a kill, the sender catches up with so many requests at once. */
const IN_FLIGHT = 256
const RESEND_MS = 100
const ANSWER_MS = 60_000
/** The last transition may be long in coming, but not without any other before it. */
const QUIET_MS = 30_000

export async function soak({ transports, minutes, rate }: SoakOptions): Promise<void> {
  const leyden = await startLeyden()
  const senders = transports.map((transport) => (transport === 'grpc' ? grpcSender(leyden.grpc) : httpSender(leyden.http, IN_FLIGHT)))
  try {
    const end = Date.now() + minutes * 60_000
    const before = await memoryOf(leyden)
    const [load, { kills, memory }] = await Promise.all([send(end), killing(leyden, end)])
    const stored = await drained(leyden, load.calls)
    print({ ...load, ...stored, kills, before, after: memory })
  } finally {
    for (const sender of senders) sender.close()
    await leyden.stop()
  }

  async function send(end: number) {
    const load = makeLoad(BATCH, SPANS)
    const start = Date.now()
    const counts = { sent: 0, acknowledged: 0, resent: 0, calls: 0 }
    const pending = new Set<Promise<void>>()
    // Only whole passes: then every run that began has also ended.
    for (let pass = 1; Date.now() < end; pass++) {
      for (const request of load.requests) {
        const due = start + (counts.sent / rate) * 1_000
        if (due > Date.now()) await sleep(due - Date.now())
        if (pending.size >= IN_FLIGHT) await Promise.race(pending)
        const sender = senders[((counts.sent / BATCH) % senders.length) | 0]!
        counts.sent += request.spans
        const one = acknowledged(freshBody(request, pass), sender).then((done) => {
          pending.delete(one)
          if (done) counts.acknowledged += request.spans
        })
        pending.add(one)
      }
      counts.calls += load.calls
    }
    await Promise.all(pending)
    return counts

    async function acknowledged(body: Buffer, sender: (typeof senders)[number]): Promise<boolean> {
      for (const deadline = Date.now() + ANSWER_MS; Date.now() < deadline; await sleep(RESEND_MS)) {
        try {
          await sender.send(body)
          return true
        } catch {
          counts.resent++
        }
      }
      return false
    }
  }
}

async function killing(leyden: Leyden, end: number) {
  let kills = 0
  let memory = await memoryOf(leyden)
  while (Date.now() + KILL_EVERY_MS < end) {
    await sleep(KILL_EVERY_MS)
    await leyden.killAndRestart()
    kills++
  }
  await sleep(end - Date.now())
  memory = await memoryOf(leyden)
  return { kills, memory }
}

const memoryOf = async (leyden: Leyden) => ({ leyden: await megabytes(leyden.pid), clickhouse: await megabytes(leyden.clickhouse.pid) })

async function drained({ clickhouse }: Leyden, calls: number) {
  let latest = { count: -1, at: 0 }
  do {
    await sleep(1_000)
    const [count] = (await clickhouse.numbers('SELECT count() FROM transitions')) as [number]
    if (count !== latest.count) latest = { count, at: Date.now() }
  } while (latest.count < calls && Date.now() - latest.at < QUIET_MS)
  const [rows, stored, seen] = (await clickhouse.numbers(
    'SELECT (SELECT count() FROM spans), (SELECT uniqExact(trace_id, span_id) FROM spans), (SELECT count() FROM spans_unique)',
  )) as [number, number, number]
  const [transitions, different] = (await clickhouse.numbers('SELECT count(), uniqExact(rollout_id, span_id) FROM transitions')) as [
    number,
    number,
  ]
  return { rows, stored, seen, transitions, different }
}

type Result = Awaited<ReturnType<typeof drained>> & {
  sent: number
  acknowledged: number
  resent: number
  calls: number
  kills: number
  before: { leyden: number; clickhouse: number }
  after: { leyden: number; clickhouse: number }
}

function print(result: Result): void {
  const lines: [string, number][] = [
    ['kills (-9)', result.kills],
    ['spans sent', result.sent],
    ['acknowledged', result.acknowledged],
    ['stored', result.stored],
    ['lost: acknowledged, not stored', Math.max(0, result.acknowledged - result.stored)],
    ['requests sent again, unanswered before', result.resent],
    ['rows of spans stored twice by that', result.rows - result.stored],
    ['duplicated in spans_unique', result.seen - result.stored],
    ['policy calls sent', result.calls],
    ['transitions', result.transitions],
    ['duplicated in transitions', result.transitions - result.different],
    ['MB of Leyden at the start', Math.round(result.before.leyden)],
    ['MB of Leyden at the end', Math.round(result.after.leyden)],
    ['MB of ClickHouse at the start', Math.round(result.before.clickhouse)],
    ['MB of ClickHouse at the end', Math.round(result.after.clickhouse)],
  ]
  console.log(formatTable(['what', 'count'], lines))
}
