// Replays spans from an otel_traces table, as the Collector's ClickHouse exporter fills it: oldest first, once, and after a restart from
// where it was. It only asks questions of the table. Spans that are inserted later, into a minute that has passed, are not seen.

import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouseClient } from '@clickhouse/client'

import { scan } from '../data/scan.ts'
import { Permanent, receiver, Refused, type Consumer } from '../pipeline/component.ts'
import { openProgress, progress_file } from '../pipeline/progress.ts'
import { secret, text } from '../pipeline/schema.ts'
import { connect, urlProblem, type Connection } from '../storage/connection.ts'
import { openOtelTable } from '../storage/otel_query.ts'
import { requestFrom } from '../storage/otel_read.ts'
import type { Storage } from '../storage/storage.ts'

/** Spans asked for in one question, unless a single minute has more. */
const TOGETHER = 20_000
/** What is passed on at once: as much as storage inserts in one block. */
const REQUEST_BYTES = 8 << 20
const RETRY_MS = 2_000

interface Place {
  /** What is replayed; another table or range begins anew. */
  readonly of: string
  /** Everything before is done: nanoseconds since the Unix epoch, in digits. */
  readonly done: string
}

export default receiver({
  type: 'clickhouse_traces',
  summary: "Replays the spans of an existing otel_traces table, as the Collector's ClickHouse exporter made it, without touching it.",
  signals: ['traces'],
  config: {
    storage: text('The clickhouse_storage extension whose ClickHouse is read from, unless `url` names another.', {
      default: 'clickhouse_storage',
    }),
    url: text('`http(s)://host:port`, `embedded` or `embedded:<folder>`; when absent, the ClickHouse of `storage`.', {
      default: null,
      aliases: ['endpoint'],
    }),
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
          for await (const passed of pass(client, done, to, next)) {
            done = passed.done
            spans += passed.spans
            await progress.save({ of, done: String(done) })
            health(null)
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

    /** Passes on slice after slice of the time range, and says after each how far that is. */
    async function* pass(client: ClickHouseClient, from: bigint, to: bigint, next: Consumer<'traces'>) {
      const { forms, spans: query, minutes } = await openOtelTable(client, table)
      const range = { from: String(from), to: String(to) }
      const rows = await client.query({ query: minutes, query_params: range, format: 'JSONEachRow', abort_signal: stop.signal })
      const slices = slicesOf(await rows.json<Minute>(), from, to)
      const ask = (slice: Range) => {
        const query_params = { from: String(slice.from), to: String(slice.to) }
        return inTheMeantime(client.exec({ query, query_params, abort_signal: stop.signal }))
      }
      let asked = slices[0] && ask(slices[0])
      for (const [i, { to }] of slices.entries()) {
        const { stream } = await asked!
        // The next rows are looked for, and the next request is written, while this one is stored.
        asked = slices[i + 1] && ask(slices[i + 1]!)
        let sending = inTheMeantime(Promise.resolve(0))
        let spans = 0
        let rest: Buffer[] = []
        let bytes = 0
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          rest.push(chunk)
          bytes += chunk.length
          if (bytes < REQUEST_BYTES) continue
          const all = Buffer.concat(rest)
          const { request, used } = requestFrom(all, forms)
          spans += await sending
          sending = inTheMeantime(send(request, next))
          rest = [all.subarray(used)]
          // A row may be larger than all that: ask again only when there is as much more.
          bytes = used === 0 ? 0 : all.length - used
        }
        const { request } = requestFrom(Buffer.concat(rest), forms)
        spans += await sending
        spans += await send(request, next)
        yield { done: to, spans }
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
          if (await interrupted(error instanceof Refused ? error.retryAfterMs : RETRY_MS)) throw error
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

/** Its failure is told to whoever waits for it, later. */
function inTheMeantime<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

interface Minute {
  /** Seconds since the Unix epoch. */
  readonly minute: number
  readonly spans: number
}

interface Range {
  readonly from: bigint
  readonly to: bigint
}

/** Ranges of whole minutes, of about so many spans as are asked for together; they cover what has any. */
function slicesOf(minutes: readonly Minute[], from: bigint, to: bigint): Range[] {
  const slices: Range[] = []
  let begin = from
  let spans = 0
  for (const { minute, spans: more } of minutes) {
    spans += more
    const end = smaller(BigInt(minute + 60) * 1_000_000_000n, to)
    if (spans < TOGETHER && minute !== minutes.at(-1)!.minute) continue
    slices.push({ from: begin, to: end })
    begin = end
    spans = 0
  }
  return slices
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)

const nanoseconds = (date: string | null, otherwise: bigint): bigint => (date === null ? otherwise : BigInt(Date.parse(date)) * 1_000_000n)
