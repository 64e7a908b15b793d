// Runs what the agent wrote, in SQLite compiled to WebAssembly.

import initSqlJs from 'sql.js'

import { databases } from './databases.ts'

export type Outcome = 'rows' | 'empty' | 'error'

export interface Result {
  readonly outcome: Outcome
  /** One text a row, sorted: the order of rows is nobody's answer. */
  readonly rows: readonly string[]
  readonly error?: string
}

const MOST_ROWS = 100

const SQL = await initSqlJs()
const opened = databases.map((tables) => {
  const database = new SQL.Database()
  for (const { name, columns, rows } of tables) {
    database.run(`CREATE TABLE ${name} (${columns.join(', ')})`)
    for (const row of rows) database.run(`INSERT INTO ${name} VALUES (${row.map(() => '?').join(', ')})`, [...row])
  }
  return database
})

/** What `sql` gives on the database of that number. Only reads. */
export function execute(database: number, sql: string): Result {
  try {
    if (!/^select\b/i.test(sql)) throw new Error('not a query')
    const values = opened[database]?.exec(sql)[0]?.values ?? []
    const rows = values
      .slice(0, MOST_ROWS)
      .map((row) => row.join(' | '))
      .sort()
    const nothing = values.every((row) => row.every((value) => value === null))
    return { outcome: nothing ? 'empty' : 'rows', rows }
  } catch (error) {
    return { outcome: 'error', rows: [], error: (error as Error).message }
  }
}

/** Whether both give the same rows. */
export function sameAnswer(database: number, sql: string, right: string): boolean {
  const got = execute(database, sql)
  return got.outcome !== 'error' && got.rows.join('\n') === execute(database, right).rows.join('\n')
}
