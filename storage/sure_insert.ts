// ClickHouse notes a block's token before the block's part has its name. Where it is killed (-9) in between, the part is gone, and the block,
// which comes again since nobody was answered, is taken for one that is there. So one that took more than one try is looked for, and sent again
// by another name where it is not there. It is exact: ClickHouse notes and names a part under one lock, so that whoever is told that a block is
// a duplicate finds it, unless it was killed.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

import type { IsStored } from './is_stored.ts'
import { LONG_STATEMENT } from './literals.ts'

/** Blocks whose try failed. Those that are tried again come within minutes; past this many, the oldest are forgotten. */
const MOST_DOUBTFUL = 10_000

interface SureInsert {
  /** Of another, the same token is another block. */
  readonly table: string
  readonly token: string
  readonly isStored: IsStored
  insert(token: string): Promise<void>
}

/** Inserts once, to be called again with the same token where it rejects. */
export function sureInserts(client: ClickHouseClient): (insert: SureInsert) => Promise<void> {
  const doubtful = new Set<string>()

  function doubt(block: string): void {
    doubtful.delete(block)
    doubtful.add(block)
    for (const oldest of doubtful) {
      if (doubtful.size <= MOST_DOUBTFUL) break
      doubtful.delete(oldest)
    }
  }

  async function ask(table: string, sql: string): Promise<boolean> {
    // In a replicated table a part and its token are one transaction, and the replica that is asked may not have the part yet.
    const query = `
      SELECT (SELECT ${sql})
        OR (SELECT count() > 0 FROM system.tables WHERE database = currentDatabase() AND name = {table:String}
            AND match(engine, '^(Replicated|Shared)')) AS stored`
    const answer = await client.query({ query, query_params: { table }, format: 'JSONEachRow', clickhouse_settings: LONG_STATEMENT })
    const [row] = await answer.json<{ stored: number }>()
    return row!.stored === 1
  }

  return async ({ table, token, isStored, insert }) => {
    if (!isStored) return insert(token)
    const block = `${table} ${token}`
    try {
      await insert(token)
      // A name that nobody knows yet is not taken for another's.
      if (doubtful.has(block) && !(await ask(table, isStored()))) await insert(randomUUID())
      doubtful.delete(block)
    } catch (error) {
      doubt(block)
      throw error
    }
  }
}
