// Tables that hold values on their way into an UPDATE, which looks each up by its row's key.

import { randomUUID } from 'node:crypto'

import type { ClickHouseClient } from '@clickhouse/client'

const STAGING = 'credit_staging_'

interface Commands {
  command(query: string): Promise<unknown>
}

/** @param columns the first is `key` */
export async function withStaging({ command }: Commands, columns: string, use: (table: string) => Promise<void>): Promise<void> {
  const table = `${STAGING}${randomUUID().replaceAll('-', '')}`
  try {
    await command(`CREATE TABLE IF NOT EXISTS ${table} (${columns}) ENGINE = Join(ANY, LEFT, key)`)
    await use(table)
  } finally {
    command(`DROP TABLE IF EXISTS ${table}`).catch(() => {}) // dropStagingTables finds it
  }
}

/** What a run that was killed left behind. */
export async function dropStagingTables(client: ClickHouseClient): Promise<void> {
  const left = await client.query({
    query: `SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, '${STAGING}')`,
    format: 'JSONEachRow',
  })
  for (const { name } of await left.json<{ name: string }>()) await client.command({ query: `DROP TABLE IF EXISTS ${name}` })
}
