// Raw spans and log records read back as objects.

import type { ClickHouseClient } from '@clickhouse/client'

import { readLog, readSpan } from '../data/scan.ts'
import type { Item } from '../data/span.ts'

/** Traces asked for in one query. */
const TOGETHER = 1_000

/**
 * Items of these traces by start time, those of one time as they arrived: log records of one call often share a millisecond.
 * Each span id comes once, the ended copy rather than an unfinished one, and each identical log record once.
 */
export async function readItems(client: ClickHouseClient, traceIds: readonly string[]): Promise<Item[]> {
  const items: Item[] = []
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
    const chunks: Buffer[] = []
    for await (const chunk of stream) chunks.push(chunk as Buffer)
    readRows(Buffer.concat(chunks), items)
  }
  return items
}

function readRows(bytes: Buffer, items: Item[]): void {
  let at = 0
  const next = () => {
    let size = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++]!
      size |= (byte & 127) << shift
      if (byte < 128) break
    }
    return bytes.subarray(at, (at += size))
  }
  while (at < bytes.length) {
    const read = bytes[at++] === 1 ? readLog : readSpan
    const [resource, scope, payload] = [next(), next(), next()]
    items.push(read(payload, resource, scope))
  }
}
