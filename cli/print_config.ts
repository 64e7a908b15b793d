// Prints the configuration as it is understood: sources merged, variables expanded, defaults filled in.

import { stringify } from 'yaml'

import { resolved } from '../pipeline/resolved.ts'
import { command, configFlags, configFlagsHelp, loadPlan, UsageError } from './flags.ts'

const MODES = ['redacted', 'unredacted']
const FORMATS = ['yaml', 'json']

const HELP = `Prints the resolved configuration: sources merged, variables expanded, defaults filled in.

Usage:
  leyden print-config --config <source>

Flags:
${configFlagsHelp}  --mode <mode>      redacted (default): secrets print as [REDACTED]; unredacted: they are shown
  --format <format>  yaml (default) or json

Example:
  leyden print-config --config config/pipeline.yaml --format json
`

export const printConfig = command({
  help: HELP,
  flags: { ...configFlags, mode: { type: 'string', default: 'redacted' }, format: { type: 'string', default: 'yaml' } },
  async run({ mode, format, ...flags }, io) {
    oneOf('mode', mode, MODES)
    oneOf('format', format, FORMATS)
    const plan = await loadPlan(flags, io)
    if (!plan) return 1
    const config = resolved(plan, mode === 'redacted' ? 'hidden' : 'shown')
    io.stdout(
      format === 'json'
        ? `${JSON.stringify(config, null, 2)}\n`
        : stringify(config, { sortMapEntries: true, indent: 4, singleQuote: true }),
    )
    return 0
  },
})

function oneOf(flag: string, value: string, known: readonly string[]): void {
  if (!known.includes(value)) throw new UsageError(`invalid argument "${value}" for "--${flag}" flag: must be one of ${known.join(', ')}`)
}
