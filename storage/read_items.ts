// Raw spans and log records read back: as the bytes that were stored, or as objects.

import type { ClickHouseClient } from '@clickhouse/client'

import { knownEnvelope } from '../data/known_envelopes.ts'
import { readRaw } from '../data/read.ts'
import type { Item } from '../data/span.ts'
import type { RawItem } from '../data/span_batch.ts'
import { SMALL_STATEMENT } from './literals.ts'
import type { Size, Storage, Wanted } from './storage.ts'

/** Traces asked for in one query. */
const TOGETHER = 1_000
/** Bytes of rows that are read together. */
const BLOCK = 1 << 20

export async function readItems(client: ClickHouseClient, traceIds: readonly string[]): Promise<Item[]> {
  return (await readRawItems(client, traceIds)).map(readRaw)
}

/**
 * Items of these traces (of many, those that come first by trace and time) by start time, those of one time as they arrived: log records of one call often share a millisecond.
 * Each span id comes once, the ended copy rather than an unfinished one, and each identical log record once.
 */
export async function readRawItems(client: ClickHouseClient, traceIds: readonly string[], { keys, most }: Wanted = {}): Promise<RawItem[]> {
  const items: RawItem[] = []
  let left = most
  const from = keys ? `${OF_TRACES} AND rollout_hint IN {hints:Array(String)}` : OF_TRACES
  for (let i = 0; i < traceIds.length; i += TOGETHER) {
    const before = items.length
    const { stream } = await client.exec({
      query: `
        ${left ? `WITH ${lastThatFits(from)} AS last` : ''}
        SELECT signal = 'log', resource, scope, payload ${from} ${left ? `AND ${PLACE} <= last` : ''}
        ORDER BY start_time, duration = 0, received_at, position
        LIMIT 1 BY trace_id, span_id, if(signal = 'log', cityHash64(payload, resource), 0)
        FORMAT RowBinary`,
      query_params: { traces: traceIds.slice(i, i + TOGETHER), hints: ['', ...(keys ?? [])], ...left },
      clickhouse_settings: SMALL_STATEMENT,
    })
    await readRows(stream, items)
    left &&= less(left, items.slice(before))
  }
  return items
}

const OF_TRACES = "FROM spans WHERE tenant = '' AND trace_id IN {traces:Array(String)}"
/** The table's own order. */
const PLACE = '(trace_id, start_time, span_id)'

/** Found by sizes alone: the embedded ClickHouse has an answer in memory before it sends it. */
const lastThatFits = (from: string) => `(
  SELECT max(place) FROM (
    SELECT ${PLACE} AS place, sum(length(payload)) OVER before AS bytes, count() OVER before AS items ${from}
    WINDOW before AS (ORDER BY trace_id, start_time, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  )
  WHERE bytes < {bytes:UInt64} AND items < {items:UInt64}
)`

const less = ({ items, bytes }: Size, read: readonly RawItem[]): Size => ({
  items: Math.max(0, items - read.length),
  bytes: Math.max(0, bytes - read.reduce((sum, { payload }) => sum + payload.length, 0)),
})

export async function sizesOf(client: ClickHouseClient, traceIds: readonly string[]): ReturnType<Storage['sizesOf']> {
  const sizes: Awaited<ReturnType<Storage['sizesOf']>> = []
  for (let i = 0; i < traceIds.length; i += TOGETHER) {
    const answer = await client.query({
      query: `
        SELECT trace_id, rollout_hint AS key, count() AS items, sum(length(payload)) AS bytes ${OF_TRACES}
        GROUP BY trace_id, key`,
      query_params: { traces: traceIds.slice(i, i + TOGETHER) },
      format: 'JSONEachRow',
      clickhouse_settings: { ...SMALL_STATEMENT, output_format_json_quote_64bit_integers: 0 },
    })
    sizes.push(...(await answer.json<(typeof sizes)[number]>()))
  }
  return sizes
}

/** Rows stay in the block in which they came: what has been read of them can be let go block by block. */
async function readRows(stream: AsyncIterable<Buffer>, items: RawItem[]): Promise<void> {
  let chunks: Buffer[] = []
  let size = 0
  let enough = BLOCK
  const read = () => {
    const block = Buffer.concat(chunks)
    const rest = block.subarray(readBlock(block, items))
    chunks = [rest]
    size = rest.length
    // A row may be larger than a block, and is not to be copied with every chunk of it.
    enough = Math.max(BLOCK, 2 * size)
  }
  for await (const chunk of stream) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= enough) read()
  }
  read()
}

/** Returns where the first row stands that is not whole. */
function readBlock(bytes: Buffer, items: RawItem[]): number {
  let at = 0
  /** The next text of the row; null where the rest of it is yet to come. */
  const next = (): Buffer | null => {
    let size = 0
    for (let shift = 0; ; shift += 7) {
      if (at >= bytes.length) return null
      const byte = bytes[at++]!
      size |= (byte & 127) << shift
      if (byte < 128) break
    }
    at += size
    return at > bytes.length ? null : bytes.subarray(at - size, at)
  }
  for (;;) {
    const start = at
    const signal = bytes[at++] === 1 ? 'logs' : 'traces'
    const resource = next()
    const scope = resource && next()
    const payload = scope && next()
    if (!payload) return start
    items.push({ signal, payload, resource: knownEnvelope('resource', resource, ''), scope: knownEnvelope('scope', scope, '') })
  }
}
