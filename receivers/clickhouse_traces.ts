// Replays spans from an otel_traces table, as the Collector's ClickHouse exporter fills it: from the oldest stretch of time on, once, and
// after a restart from where it was. It only asks questions of the table. Spans that are inserted later, into a time that has passed, are not seen.

import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouseClient } from '@clickhouse/client'

import { scan } from '../data/scan.ts'
import { Permanent, receiver, Refused, type Consumer } from '../pipeline/component.ts'
import { openProgress, progress_file } from '../pipeline/progress.ts'
import { secret, text } from '../pipeline/schema.ts'
import { connect, urlProblem, type Connection } from '../storage/connection.ts'
import { inTheMeantime, otelRequests, type Range } from '../storage/otel_requests.ts'
import type { Storage } from '../storage/storage.ts'

/**
 * Requests on their way at once: the end of one is stored together with the beginning of the next. One that is refused for now is sent
 * again before another begins.
 */
const UNDER_WAY = 4
const RETRY_MS = 2_000

interface Place {
  /** What is replayed; another table or range begins anew. */
  readonly of: string
  /** Everything before is done: nanoseconds since the Unix epoch, in digits. */
  readonly done: string
}

/** A request on its way. */
interface Sent {
  /** How many of its spans were accepted. */
  readonly spans: Promise<number>
  readonly until: bigint | undefined
}

export default receiver({
  type: 'clickhouse_traces',
  summary: "Replays the spans of an existing otel_traces table, as the Collector's ClickHouse exporter made it, without touching it.",
  signals: ['traces'],
  config: {
    storage: text('The clickhouse_storage extension whose ClickHouse is read from, unless `url` names another.', {
      default: 'clickhouse_storage',
    }),
    url: text(
      '`embedded`, `embedded:<folder>` or `http(s)://host:port`, in which user, password, database and settings of ClickHouse may stand as well; when absent, the ClickHouse of `storage`.',
      {
        default: null,
        aliases: ['endpoint'],
      },
    ),
    database: text('Database of the table at `url`.', { default: 'default' }),
    username: text('User at `url`; it needs no right but to read.', { default: 'default' }),
    password: secret('Password of the user.', { default: '' }),
    table: text('The table.', { default: 'otel_traces', aliases: ['traces_table_name'] }),
    since: text('First moment to replay, e.g. 2026-11-01 or 2026-11-01T08:00:00Z; when absent, all.', { default: null }),
    until: text('First moment not to replay; when absent, the moment of the start.', { default: null }),
    progress_file,
  },
  check: ({ url, since, until }) => [
    ...urlProblem(url ?? 'embedded').map((message) => ({ path: ['url'], message })),
    ...Object.entries({ since, until }).flatMap(([name, value]) =>
      value === null || Number.isFinite(Date.parse(value))
        ? []
        : [{ path: [name], message: `must be a date, e.g. 2026-11-01T08:00:00Z (got ${JSON.stringify(value)})` }],
    ),
  ],

  create(options, { id, log, count, health, extension }) {
    const { url, database, username, password, table } = options
    const progress = openProgress<Place>(options.progress_file, id)
    const stop = new AbortController()
    let own: Connection | undefined
    let replaying: Promise<void> | undefined
    let resending = 0

    async function start({ traces }: { traces?: Consumer<'traces'> }): Promise<void> {
      const place = await progress.load()
      if (url !== null) own = await connect({ url, database, username, password })
      const client = own?.client ?? extension<Storage>(options.storage).client
      const of = [url ?? options.storage, database, table, options.since ?? ''].join(' ')
      const from = place?.of === of ? BigInt(place.done) : nanoseconds(options.since, 0n)
      const to = nanoseconds(options.until, BigInt(Date.now()) * 1_000_000n)
      replaying = replay(client, of, from, to, traces!)
    }

    async function replay(client: ClickHouseClient, of: string, from: bigint, to: bigint, next: Consumer<'traces'>): Promise<void> {
      let done = from
      let spans = 0
      for (;;) {
        try {
          for await (const passed of pass(client, { from: done, to }, next)) {
            spans += passed.spans
            health(null)
            if (passed.until === undefined) continue
            done = passed.until
            await progress.save({ of, done: String(done) })
          }
          log.info('Everything was replayed.', { table, spans })
          return
        } catch (error) {
          if (stop.signal.aborted) return
          health(`cannot read ${table}: ${(error as Error).message}`)
          const wait = error instanceof Refused ? error.retryAfterMs : RETRY_MS
          if (await interrupted(wait)) return
        }
      }
    }

    /** Passes on request after request of the time range, and says of each when it was accepted. */
    async function* pass(client: ClickHouseClient, range: Range, next: Consumer<'traces'>) {
      const underWay: Sent[] = []
      const oldest = async () => {
        const { spans, until } = underWay[0]!
        const passed = { spans: await spans, until }
        underWay.shift()
        return passed
      }
      try {
        for await (const { request, until } of otelRequests(client, table, range, stop.signal)) {
          while (underWay.length === UNDER_WAY || (resending > 0 && underWay.length > 0)) yield await oldest()
          underWay.push({ spans: inTheMeantime(send(request, next)), until })
        }
        while (underWay.length > 0) yield await oldest()
      } finally {
        await Promise.allSettled(underWay.map(({ spans }) => spans))
      }
    }

    async function send(request: Buffer, next: Consumer<'traces'>): Promise<number> {
      const { batch, rejected } = scan('traces', request)
      let refused = rejected.length
      for (;;) {
        if (stop.signal.aborted) throw new Error('stopping')
        try {
          if (batch.count > 0) await next([batch])
          break
        } catch (error) {
          if (error instanceof Permanent) {
            log.warn('The pipeline refused spans for good.', { error: error.message })
            refused += batch.count
            break
          }
          health(`the pipeline does not take spans: ${(error as Error).message}`)
          resending++
          const stopped = await interrupted(error instanceof Refused ? error.retryAfterMs : RETRY_MS)
          resending--
          if (stopped) throw error
        }
      }
      const accepted = batch.count + rejected.length - refused
      count('receiver_accepted_spans', accepted, { transport: 'clickhouse' })
      count('receiver_refused_spans', refused, { transport: 'clickhouse' })
      return accepted
    }

    /** Waits; true when it is time to stop. */
    const interrupted = (ms: number): Promise<boolean> => sleep(ms, false, { signal: stop.signal }).catch(() => true)

    return {
      start,
      async shutdown() {
        stop.abort()
        await replaying
        await own?.close()
        own = undefined
      },
    }
  },
})

const nanoseconds = (date: string | null, otherwise: bigint): bigint => (date === null ? otherwise : BigInt(Date.parse(date)) * 1_000_000n)
