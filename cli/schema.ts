// The ClickHouse schema: shown, brought up to date, or compared with what is there.

import { connect } from '../storage/connection.ts'
import { applySchema, checkSchema, schemaSql } from '../storage/migrate.ts'
import { command, UsageError } from './flags.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Prints, applies or checks the ClickHouse schema. A pipeline applies it when it starts; this is for those who do not let it.

Usage:
  leyden schema print|apply|check [flags]

  print   every statement, in order
  apply   runs the migrations that are missing; says nothing when there are none
  check   says what is missing, one line each; exit code 1 when something is

Flags:
${storageFlagsHelp}
Example:
  leyden schema check --url http://localhost:8123
`

const ACTIONS = ['print', 'apply', 'check'] as const

export const schema = command({
  help: HELP,
  flags: storageFlags,
  words: true,
  async run(flags, io, words) {
    const action = ACTIONS.find((name) => name === words[0])
    if (!action || words.length > 1) throw new UsageError(`say what to do: leyden schema ${ACTIONS.join('|')}`)
    const options = await storageOptions(flags, io)
    if (!options) return 1
    if (action === 'print') {
      io.stdout(schemaSql(options))
      return 0
    }
    if (action === 'check') requireData(options)
    const { client, makeDatabase, close } = await connect(options)
    try {
      if (action === 'check') {
        const problems = await checkSchema(client, options)
        for (const problem of problems) io.stdout(`${problem}\n`)
        return problems.length > 0 ? 1 : 0
      }
      await makeDatabase()
      for (const name of await applySchema(client, options)) io.stdout(`applied: ${name}\n`)
      return 0
    } catch (error) {
      io.stderr(`Error: ${(error as Error).message.trim()}\n`)
      return 1
    } finally {
      await close()
    }
  },
})
