// The rows of an otel_traces table as OTLP requests, one stretch of time after the other, and in each as they come, which is how spans arrive
// anyway. ClickHouse looks for the next rows while those before are made requests.

import type { Readable } from 'node:stream'

import type { ClickHouseClient } from '@clickhouse/client'

import { openOtelTable } from './otel_query.ts'
import { requestFrom } from './otel_read.ts'

/** Spans asked for in one question, unless a single millisecond has more. An embedded ClickHouse holds the whole answer. */
const TOGETHER = 20_000
/** What is made one request: as much as storage inserts in one block. */
const REQUEST_BYTES = 4 << 20
/** Nanoseconds: a minute; where that has too many spans a second, and where that has, a millisecond. */
const UNITS = [60_000_000_000n, 1_000_000_000n, 1_000_000n] as const

/** Nanoseconds since the Unix epoch. */
export interface Range {
  readonly from: bigint
  readonly to: bigint
}

export interface OtelRequest {
  readonly request: Buffer
  /** With this request everything before this moment was given. undefined where a question's answer goes on. */
  readonly until: bigint | undefined
}

/** Rejects where the table is none of the Collector's. */
export async function* otelRequests(
  client: ClickHouseClient,
  table: string,
  range: Range,
  abort_signal: AbortSignal,
): AsyncGenerator<OtelRequest> {
  const { forms, spans, counts } = await openOtelTable(client, table)

  async function count({ from, to }: Range, unit: bigint): Promise<readonly Counted[]> {
    const query_params = { from: String(from), to: String(to), unit: String(unit) }
    const rows = await client.query({ query: counts, query_params, format: 'JSONEachRow', abort_signal })
    return rows.json<Counted>()
  }

  const slices = slicesOf(count, range, UNITS)
  async function ask(): Promise<Answer | undefined> {
    const slice = await slices.next()
    if (slice.done) return undefined
    const { from, to } = slice.value
    const { stream } = await client.exec({ query: spans, query_params: { from: String(from), to: String(to) }, abort_signal })
    return { rows: stream, until: to }
  }

  let asked = inTheMeantime(ask())
  try {
    for (let answer; (answer = await asked);) {
      asked = inTheMeantime(ask())
      let rest: Buffer[] = []
      let bytes = 0
      for await (const chunk of answer.rows as AsyncIterable<Buffer>) {
        rest.push(chunk)
        bytes += chunk.length
        if (bytes < REQUEST_BYTES) continue
        const all = Buffer.concat(rest)
        const { request, used } = requestFrom(all, forms)
        if (used > 0) yield { request, until: undefined }
        rest = [all.subarray(used)]
        // A row may be larger than all that: ask again only when there is as much more.
        bytes = used === 0 ? 0 : all.length - used
      }
      yield { request: requestFrom(Buffer.concat(rest), forms).request, until: answer.until }
    }
  } finally {
    // Whoever stops in the middle does not want the next answer either.
    void asked.then((answer) => answer?.rows.destroy()).catch(() => {})
  }
}

interface Answer {
  readonly rows: Readable
  readonly until: bigint
}

interface Counted {
  /** Units of time since the Unix epoch. */
  readonly at: string
  readonly spans: number
}

type Count = (range: Range, unit: bigint) => Promise<readonly Counted[]>

/** Ranges of whole units with at most as many spans as are asked for together, or of a single one of the finest; they cover what has any. */
async function* slicesOf(count: Count, { from, to }: Range, [unit, ...finer]: readonly bigint[]): AsyncGenerator<Range> {
  let begin = from
  let end = from
  let gathered = 0
  for (const { at, spans } of await count({ from, to }, unit!)) {
    const start = larger(BigInt(at) * unit!, from)
    if (gathered > 0 && gathered + spans > TOGETHER) {
      yield { from: begin, to: start }
      begin = start
      gathered = 0
    }
    end = smaller((BigInt(at) + 1n) * unit!, to)
    if (spans > TOGETHER && finer.length > 0) {
      yield* slicesOf(count, { from: start, to: end }, finer)
      begin = end
    } else gathered += spans
  }
  if (gathered > 0) yield { from: begin, to: end }
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

/** Its failure is told to whoever waits for it, later. */
export function inTheMeantime<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}
