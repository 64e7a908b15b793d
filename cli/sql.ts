// A question in SQL to the store, whether a pipeline is running on it or not.

import { ClickHouseError, type DataFormat } from '@clickhouse/client'

import { connect } from '../storage/connection.ts'
import type { StorageOptions } from '../storage/open.ts'
import type { Io } from './command.ts'
import { command, UsageError } from './flags.ts'
import { readText } from './read_text.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Asks the store a question in SQL, whether the pipeline is running or not. The SQL may also come from a file or from standard input.

Usage:
  leyden sql [flags] "SELECT …"

Flags:
${storageFlagsHelp}  --format <name>    a format of ClickHouse, e.g. JSONEachRow, CSVWithNames, Vertical, Parquet
  -f, --file <path>  the file that holds the SQL; - is standard input
Without a configuration the store is that of $CLICKHOUSE_URL, else ./leyden_data.

Example:
  leyden sql "SELECT rollout_id, step, reward_outcome, advantage FROM transitions ORDER BY started_at DESC LIMIT 10"
`

export const sql = command({
  help: HELP,
  flags: { ...storageFlags, format: { type: 'string' }, file: { type: 'string', short: 'f' } },
  words: true,
  async run(flags, io, words) {
    const query = await queryOf(flags.file, words, io)
    const options = await storageOptions(flags, io)
    if (!options) return 1
    requireData(options)
    try {
      await ask(options, query, flags.format ?? (io.terminal ? 'PrettyCompactMonoBlock' : 'TabSeparatedWithNames'), io)
      return 0
    } catch (error) {
      io.stderr(`Error: ${inOneLine(error as Error)}\n`)
      return 1
    }
  },
})

async function queryOf(file: string | undefined, words: readonly string[], io: Io): Promise<string> {
  if (file !== undefined && words.length > 0) throw new UsageError('give the SQL either as an argument or in a file')
  if (words.length > 1) throw new UsageError('put the SQL in quotes, as one argument')
  const fromInput = file === '-' || (file === undefined && words.length === 0 && !io.terminal)
  const query = fromInput ? ((await io.stdin?.()) ?? '') : file === undefined ? (words[0] ?? '') : await readText(file, io.cwd)
  if (!query.trim()) throw new UsageError('there is no SQL to run: leyden sql "SELECT …"')
  return query
}

async function ask(options: StorageOptions, query: string, format: string, io: Io): Promise<void> {
  const { client, close } = await connect(options)
  try {
    const { stream } = await client.exec({ query, clickhouse_settings: { default_format: format as DataFormat } })
    stream.setEncoding('utf8')
    for await (const text of stream) io.stdout(text as string)
  } finally {
    await close()
  }
}

function inOneLine(error: Error): string {
  const message = error.message.replaceAll(/\s+/g, ' ').trim()
  if (error instanceof ClickHouseError) return `${message} (${error.type ?? error.code})`
  return 'code' in error ? `cannot reach ClickHouse: ${message || String(error.code)}` : message
}
