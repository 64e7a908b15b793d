// Checks a configuration as a run would, and starts nothing.

import { command, configFlags, configFlagsHelp, loadPlan } from './flags.ts'

const HELP = `Checks a configuration and starts nothing. Says nothing when all is well, else every mistake with its place; exit code 1.

Usage:
  leyden validate --config <source>

Flags:
${configFlagsHelp}
Example:
  leyden validate --config config/pipeline.yaml --set processors.air.mode=bonus
`

export const validate = command({
  help: HELP,
  flags: configFlags,
  async run(flags, io) {
    return (await loadPlan(flags, io)) ? 0 : 1
  },
})
