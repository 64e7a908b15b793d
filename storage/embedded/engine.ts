// ClickHouse inside this process (chDB), one statement at a time per lane.

import { join } from 'node:path'

import type { Session } from 'chdb'

import { lanes } from '../../data/lanes.ts'
import { forgetUnstored } from './deduplication_logs.ts'

export interface Statement {
  readonly sql: string
  /** The format of the answer where the SQL names none. */
  readonly format: string
  readonly database: string
  readonly settings: Readonly<Record<string, string>>
  /** Values of `{name:Type}` in the SQL, as ClickHouse writes them in TabSeparated. */
  readonly params: Readonly<Record<string, string>>
}

export interface Answer {
  readonly bytes: Buffer
  readonly rows_read: number
  readonly bytes_read: number
}

export interface Engine {
  run(statement: Statement): Promise<Answer>
  /** Resolves when what is running has ended and the folder is free. */
  close(): Promise<void>
}

/** Reads must not hold up writes, nor a slow one all others. */
const LANES = 3

const READS = /^(\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*\(*\s*(SELECT|WITH|SHOW|DESC|DESCRIBE|EXISTS|EXPLAIN|CHECK|FROM|VALUES)\b/i

export async function openEngine(folder: string): Promise<Engine> {
  const { Session } = await import('chdb')
  const path = join(folder, 'clickhouse')
  await forgetUnstored(path)
  // Holds the folder: chDB closes it when its last session ends.
  const anchor = new Session(path)
  const read = lanes(LANES)
  const write = lanes(LANES)

  // A session per statement costs 1 ms and keeps settings, parameters and the database from
  // leaking into the next one. chDB runs one statement at a time per session.
  async function run({ sql, format, database, settings, params }: Statement): Promise<Answer> {
    const lane = READS.test(sql) ? read : write
    return lane(async () => {
      const session = new Session(path)
      try {
        if (database && database !== 'default') await session.queryAsync(`USE ${identifier(database)}`)
        await assign(session, settings, params)
        const result = await session.queryAsync(sql, { format })
        const { buffer, byteOffset, byteLength } = result.bytes()
        // The same bytes: those of a training batch are 30 MB, which a copy would take 10 ms for, with nothing else answered meanwhile.
        return { bytes: Buffer.from(buffer, byteOffset, byteLength), rows_read: result.rowsRead, bytes_read: result.bytesRead }
      } finally {
        session.close()
      }
    })
  }

  async function close(): Promise<void> {
    await Promise.all([read.idle(), write.idle()])
    anchor.close()
  }

  return { run, close }
}

async function assign(session: Session, settings: Statement['settings'], params: Statement['params']): Promise<void> {
  const assignments = [
    ...Object.entries(settings).map(([name, value]) => `${identifier(name)} = ${literal(value)}`),
    ...Object.entries(params).map(([name, value]) => `${identifier(`param_${name}`)} = ${literal(value)}`),
  ]
  if (assignments.length > 0) await session.queryAsync(`SET ${assignments.join(', ')}`)
}

const identifier = (name: string): string => '`' + name.replaceAll('\\', '\\\\').replaceAll('`', '\\`') + '`'
const literal = (text: string): string => "'" + text.replaceAll('\\', '\\\\').replaceAll("'", "\\'") + "'"
