// A start after a kill with many rollouts open: how long until they are all open again, and what that takes. Meanwhile requests are taken and
// stored as ever.

import { setTimeout as sleep } from 'node:timers/promises'

import { startLeyden, type Leyden } from './leyden.ts'
import { freshBody, makeLoad, type Load } from './load.ts'
import { cpuSeconds, megabytes, peakMegabytes } from './processes.ts'
import { grpcSender } from './send.ts'
import { formatTable } from './table.ts'

const SPANS = 8_192
const BATCH = 512
const IN_FLIGHT = 16
const POLL_MS = 100
const QUIET_MS = 60_000

export async function restart(open: number): Promise<void> {
  const leyden = await startLeyden({ rootGrace: '1h' })
  try {
    const load = makeLoad(BATCH, SPANS)
    const spans = await fill(leyden, load, open)
    const rollouts = await leyden.openRollouts()
    const before = await cpuSeconds(leyden.clickhouse.pid)
    const start = performance.now()
    await leyden.killAndRestart()
    const up = performance.now()
    const early = await megabytes(leyden.pid)
    const resumed = await resumedAt(leyden, rollouts)
    const cells = [
      ...[
        rollouts,
        await leyden.openRollouts(),
        spans,
        seconds(up - start),
        seconds(resumed - up),
        seconds(1_000 * (await cpuSeconds(leyden.pid))),
      ],
      ...[
        seconds(1_000 * ((await cpuSeconds(leyden.clickhouse.pid)) - before)),
        Math.round(early),
        Math.round(await peakMegabytes(leyden.pid)),
      ],
    ]
    console.log(formatTable(HEADER, [cells]))
  } finally {
    await leyden.stop()
  }
}

/** When as many are open again, or none has been opened for long: then the table shows how many are missing. */
async function resumedAt(leyden: Leyden, rollouts: number): Promise<number> {
  let open = 0
  let last = performance.now()
  while (open < rollouts && performance.now() < last + QUIET_MS) {
    await sleep(POLL_MS)
    const now = await leyden.openRollouts()
    if (now !== open) last = performance.now()
    open = now
  }
  return last
}

/** Passes over the load, each with ids of its own, until so many rollouts are open. Returns how many spans that took. */
async function fill(leyden: Leyden, { requests, spans }: Load, open: number): Promise<number> {
  const sender = grpcSender(leyden.grpc)
  const pending = new Set<Promise<void>>()
  let pass = 0
  for (; (await leyden.openRollouts()) < open; pass++) {
    for (const request of requests) {
      if (pending.size >= IN_FLIGHT) await Promise.race(pending)
      const one = sender.send(freshBody(request, pass)).finally(() => pending.delete(one))
      pending.add(one)
    }
    await Promise.all(pending)
  }
  sender.close()
  return pass * spans
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

const HEADER = ['open rollouts', 'open again', 'spans', 'until it serves', 'until all are open'].concat([
  ...['CPU', 'of its ClickHouse', 'MB when it serves', 'peak MB'],
])
