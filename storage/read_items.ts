// Raw spans and log records read back: as the bytes that were stored, or as objects.

import type { ClickHouseClient } from '@clickhouse/client'

import { knownEnvelope } from '../data/known_envelopes.ts'
import { readRaw } from '../data/read.ts'
import type { Item } from '../data/span.ts'
import type { RawItem } from '../data/span_batch.ts'

/** Traces asked for in one query. */
const TOGETHER = 1_000
/** Bytes of rows that are read together. */
const BLOCK = 1 << 20

export async function readItems(client: ClickHouseClient, traceIds: readonly string[]): Promise<Item[]> {
  return (await readRawItems(client, traceIds)).map(readRaw)
}

/**
 * Items of these traces by start time, those of one time as they arrived: log records of one call often share a millisecond.
 * Each span id comes once, the ended copy rather than an unfinished one, and each identical log record once.
 */
export async function readRawItems(client: ClickHouseClient, traceIds: readonly string[]): Promise<RawItem[]> {
  const items: RawItem[] = []
  for (let i = 0; i < traceIds.length; i += TOGETHER) {
    const { stream } = await client.exec({
      query: `
        SELECT signal = 'log', resource, scope, payload FROM spans
        WHERE tenant = '' AND trace_id IN {traces:Array(String)}
        ORDER BY start_time, duration = 0, received_at, position
        LIMIT 1 BY trace_id, span_id, if(signal = 'log', cityHash64(payload, resource), 0)
        FORMAT RowBinary`,
      query_params: { traces: traceIds.slice(i, i + TOGETHER) },
    })
    await readRows(stream, items)
  }
  return items
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
