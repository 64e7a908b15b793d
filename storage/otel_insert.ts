// Inserts into the Collector's tables. Rows that ClickHouse refuses for good are found and left out, so that one bad span does not hold up
// those that came with it.

import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'

import type { ClickHouseClient } from '@clickhouse/client'

import type { OtelRows } from './otel_rows.ts'
import { quoted } from './otel_tables.ts'
import { reasonOf, storeApart } from './refused.ts'

/** @returns the server's reason for each row that it refuses; the others are stored. Rejects when that is no matter of the rows. */
export async function insertOtel(
  client: ClickHouseClient,
  table: string,
  { columns, bytes, ends }: OtelRows,
  abort: AbortSignal,
): Promise<string[]> {
  async function insert(bytes: Buffer): Promise<void> {
    const { stream } = await client.exec({
      query: `INSERT INTO ${quoted(table)} (${columns}) FORMAT RowBinary`,
      values: Readable.from([bytes], { objectMode: false }),
      abort_signal: abort,
      clickhouse_settings: {
        async_insert: 0,
        insert_deduplication_token: createHash('sha1').update(bytes).digest('hex'),
        deduplicate_blocks_in_dependent_materialized_views: 1,
        // Clocks of clients go astray; one bad one must not stop the rest.
        max_partitions_per_insert_block: '0',
      },
    })
    for await (const _ of stream);
  }

  try {
    await insert(bytes)
    return []
  } catch (error) {
    const rows = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
    const refused = await storeApart(rows, error, (some) => insert(Buffer.concat(some)))
    return refused.map(reasonOf)
  }
}
