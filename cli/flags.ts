// What subcommands share: their flags, their help, and the configuration that --config and --set name.

import { parseArgs, type ParseArgsConfig } from 'node:util'

import { loadConfig, type Plan } from '../pipeline/config.ts'
import { formatProblems } from '../pipeline/problems.ts'
import { nearMiss } from '../pipeline/schema.ts'
import { withoutPasswords } from '../pipeline/secrets.ts'
import type { Command, Io } from './command.ts'
import { registry } from './registry.ts'

type Flags = NonNullable<ParseArgsConfig['options']>
type Values<F extends Flags> = ReturnType<typeof parseArgs<{ options: F }>>['values']

/** A mistake in how a command is called: told in one line, exit code 1. */
export class UsageError extends Error {
  override name = 'UsageError'
}

interface Definition<F extends Flags> {
  /** What --help prints; it holds an example. */
  readonly help: string
  readonly flags: F
  /** Whether words that are no flags are taken. */
  readonly words?: boolean
  run(flags: Values<F>, io: Io, words: readonly string[]): Promise<number>
}

export function command<const F extends Flags>({ help, flags, words = false, run }: Definition<F>): Command {
  return async (args, given) => {
    // Whatever a message quotes may be a URL with a password.
    const io = { ...given, stderr: (text: string) => given.stderr(withoutPasswords(text)) }
    if (args.includes('--help') || args.includes('-h')) {
      io.stdout(help)
      return 0
    }
    try {
      const { values, positionals } = parseArgs({ args, options: flags, allowPositionals: words })
      return await run(values as Values<F>, io, positionals)
    } catch (error) {
      const usage = error instanceof UsageError ? error.message : flagError(error, Object.keys(flags))
      if (usage === undefined) throw error
      io.stderr(`Error: ${usage}\n`)
      return 1
    }
  }
}

/** What every command that takes a configuration understands. */
export const configFlags = {
  config: { type: 'string', multiple: true },
  set: { type: 'string', multiple: true },
} as const satisfies Flags

export const configFlagsHelp = `  --config <source>  a file, or file:path, env:NAME, yaml:a::b: value; repeatable, later sources win
  --set <key=value>  one option, e.g. exporters.debug.verbosity=detailed; repeatable, wins over --config
`

/** Loads the configuration. Says on standard error what is wrong with it; then there is no plan. */
export async function loadPlan({ config = [], set = [] }: Values<typeof configFlags>, io: Io): Promise<Plan | undefined> {
  const sources = config.length > 0 ? [...config, ...set.map(settingSource)] : []
  const { plan, warnings, problems } = await loadConfig(sources, { registry, env: io.env, cwd: io.cwd })
  for (const warning of warnings) io.stderr(`warning: ${warning}\n`)
  for (const problem of formatProblems(problems)) io.stderr(`${problem}\n`)
  return plan
}

function settingSource(setting: string): string {
  const equals = setting.indexOf('=')
  if (equals < 0) throw new UsageError(`invalid argument "${setting}" for "--set" flag: missing equal sign`)
  const path = setting.slice(0, equals).trim().replaceAll('.', '::')
  return `yaml:${path}: ${setting.slice(equals + 1).trim()}`
}

/** Node's messages about flags, shorter and with a hint. */
function flagError(error: unknown, known: readonly string[]): string | undefined {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (!code.startsWith('ERR_PARSE_ARGS')) return undefined
  const [, flag] = /^Unknown option '(-[^']*)'/.exec(message) ?? []
  return flag === undefined
    ? message
    : `unknown flag: ${flag}${nearMiss(
        flag,
        known.map((name) => `--${name}`),
      )}`
}
