// What AIR's rules found, and whether it is worth listening to.

import { connect } from '../storage/connection.ts'
import { airReport, type RuleReport } from '../storage/air_report.ts'
import { command, UsageError } from './flags.ts'
import { sinceOf } from './since.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Says of every rule of \`air\` how often it fired, and how rollouts ended in which it did, against those in which the same tool was called and
it did not. A rule that goes with the outcome the wrong way would mislead a policy that is paid for it.

Usage:
  leyden air report [flags]

Flags:
  --since <time>     only rollouts that ended since: a date, a time, or how long ago, such as 7d or 12h
${storageFlagsHelp}
Example:
  leyden air report --since 7d
`

export const air = command({
  help: HELP,
  flags: { ...storageFlags, since: { type: 'string' } },
  words: true,
  async run(flags, io, words) {
    if (words.join(' ') !== 'report') throw new UsageError('say what to do: leyden air report')
    const since = flags.since === undefined ? 0 : sinceOf(flags.since, Date.now())
    const options = await storageOptions(flags, io)
    if (!options) return 1
    requireData(options)
    const { client, close } = await connect(options)
    try {
      io.stdout(report(await airReport(client, since)))
      return 0
    } finally {
      await close()
    }
  },
})

const HEADER = ['fired', 'tool', 'rule', 'rollouts', 'outcome', 'others', 'their outcome']

function report(rules: readonly RuleReport[]): string {
  if (rules.length === 0) return 'no tool of a scored rollout was judged\n'
  const shown = (outcome: number | null) => (outcome === null ? '-' : outcome.toFixed(3))
  const rows = rules.map((r) => [r.fired, r.tool, r.rule, r.rollouts, shown(r.outcome), r.others, shown(r.outcome_of_others)].map(String))
  const widths = HEADER.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)))
  const line = (row: readonly string[]) =>
    `${row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd()}\n`
  const warnings = rules.filter(({ warning }) => warning !== '').map(({ tool, rule, warning }) => `warning: ${tool}, ${rule}: ${warning}\n`)
  return [HEADER, ...rows].map(line).join('') + warnings.join('')
}
