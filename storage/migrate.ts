// Brings a database to this Leyden's schema, and says where it is not.

import type { ClickHouseClient } from '@clickhouse/client'

import { spansTtl } from './schema/spans.ts'
import { migrations, migrationsTable, type SchemaOptions } from './schema.ts'

/** What `leyden schema print` shows: every statement, in order. */
export const schemaSql = (options: SchemaOptions): string =>
  [migrationsTable, ...migrations(options).flatMap(({ statements }) => statements)].map((sql) => `${sql.trim()};\n`).join('\n')

/** Runs what is missing. Safe while other processes do the same. Returns the names of the migrations that were run. */
export async function applySchema(client: ClickHouseClient, options: SchemaOptions): Promise<string[]> {
  await client.command({ query: migrationsTable })
  const known = migrations(options)
  const version = await appliedVersion(client)
  const newest = known.at(-1)!.version
  if (version > newest)
    throw new Error(`the database's schema has version ${version}, this Leyden knows up to ${newest}: run a newer Leyden`)
  const pending = known.filter((migration) => migration.version > version)
  for (const { version, name, statements } of pending) {
    for (const query of statements) await client.command({ query })
    await client.insert({ table: 'migrations', columns: ['version', 'name'], values: [{ version, name }], format: 'JSONEachRow' })
  }
  await setTtl(client, options)
  return pending.map(({ name }) => name)
}

/** What differs from this Leyden's schema, one line each. */
export async function checkSchema(client: ClickHouseClient, options: SchemaOptions): Promise<string[]> {
  const [tables, columns] = await Promise.all([names(client, 'tables', 'name'), names(client, 'columns', "concat(table, '.', name)")])
  if (!tables.has('migrations')) return ['no schema yet: run `leyden schema apply`']
  const known = migrations(options)
  const version = await appliedVersion(client)
  const problems = known
    .filter((m) => m.version > version)
    .map((m) => `migration ${m.version} (${m.name}) is not applied: run \`leyden schema apply\``)
  if (version > known.at(-1)!.version) problems.push(`version ${version} was made by a newer Leyden`)
  for (const statement of known.filter((m) => m.version <= version).flatMap((m) => m.statements)) {
    const [, kind, table] = /^CREATE (TABLE|VIEW) IF NOT EXISTS (\w+)/m.exec(statement)!
    if (!tables.has(table!)) problems.push(`${kind!.toLowerCase()} ${table} is missing`)
    else
      for (const column of columnsOf(statement))
        if (!columns.has(`${table}.${column}`)) problems.push(`column ${table}.${column} is missing`)
  }
  return problems
}

/** Names of the columns that a CREATE TABLE of schema/ lists: one a line. */
const columnsOf = (statement: string): string[] =>
  statement.startsWith('\nCREATE TABLE')
    ? [...statement.split('\n) ENGINE')[0]!.matchAll(/^ {2}([a-z_]+) /gm)].map(([, name]) => name!)
    : []

async function names(client: ClickHouseClient, table: 'tables' | 'columns', name: string): Promise<Set<string>> {
  const found = await rows<{ found: string }>(client, `SELECT ${name} AS found FROM system.${table} WHERE database = currentDatabase()`)
  return new Set(found.map(({ found }) => found))
}

async function appliedVersion(client: ClickHouseClient): Promise<number> {
  const [row] = await rows<{ version: number }>(client, 'SELECT max(version) AS version FROM migrations')
  return row!.version
}

async function setTtl(client: ClickHouseClient, { ttl }: SchemaOptions): Promise<void> {
  const [table] = await rows<{ ddl: string }>(
    client,
    "SELECT create_table_query AS ddl FROM system.tables WHERE database = currentDatabase() AND name = 'spans'",
  )
  const wanted = ttl > 0 ? `TTL ${spansTtl(ttl)}` : ''
  const [found = ''] = /TTL toDateTime\(received_at\) \+ toIntervalSecond\(\d+\)/.exec(table!.ddl) ?? []
  if (found !== wanted) await client.command({ query: `ALTER TABLE spans ${wanted ? `MODIFY ${wanted}` : 'REMOVE TTL'}` })
}

const rows = async <T>(client: ClickHouseClient, query: string): Promise<T[]> =>
  (await client.query({ query, format: 'JSONEachRow' })).json<T>()
