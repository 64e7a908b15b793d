#!/usr/bin/env -S node --max-semi-space-size=8 --initial-old-space-size=64
// The command line: finds the subcommand and gives it the world. Everything is wired here and nowhere else.

import { realpathSync } from 'node:fs'
import { text as readText } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { didYouMean } from '../pipeline/schema.ts'
import type { Command, Io } from './command.ts'
import { packageVersion } from './version.ts'

const COMMANDS: Readonly<Record<string, { summary: string; load: () => Promise<Command> }>> = {
  run: { summary: 'Runs the pipelines of a configuration until it is told to stop', load: async () => (await import('./run.ts')).run },
  validate: { summary: 'Checks a configuration and starts nothing', load: async () => (await import('./validate.ts')).validate },
  components: {
    summary: 'Lists the components that a configuration can name',
    load: async () => (await import('./components.ts')).components,
  },
  'print-config': {
    summary: 'Prints the resolved configuration, defaults filled in and secrets hidden',
    load: async () => (await import('./print_config.ts')).printConfig,
  },
  schema: { summary: 'Prints, applies or checks the ClickHouse schema', load: async () => (await import('./schema.ts')).schema },
  sql: {
    summary: 'Asks the store a question in SQL, whether the pipeline is running or not',
    load: async () => (await import('./sql.ts')).sql,
  },
  explain: {
    summary: 'Says of every call why it became a transition, or why not',
    load: async () => (await import('./explain.ts')).explain,
  },
  tap: { summary: 'Shows what leaves a component of a running Leyden', load: async () => (await import('./tap.ts')).tap },
  doctor: {
    summary: 'Shows which transitions a changed configuration would make, of stored rollouts',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  test: {
    summary: 'Runs cases of your own: spans in, expected transitions out',
    load: async () => (await import('./test.ts')).test,
  },
  air: {
    summary: 'Says which rules of `air` fired, and which would mislead',
    load: async () => (await import('./air.ts')).air,
  },
  recredit: {
    summary: 'Computes returns and advantages of what is stored again',
    load: async () => (await import('./recredit.ts')).recredit,
  },
  rollouts: {
    summary: 'Runs tasks in groups on long-lived agent workers, in step with the trainer',
    load: async () => (await import('./rollouts.ts')).rollouts,
  },
  train: {
    summary: 'Trains a policy on stored rollouts, as the extension `trainer` would',
    load: async () => (await import('./train.ts')).train,
  },
  policies: {
    summary: 'Shows the versions of policies, and changes which one is live',
    load: async () => (await import('./policies.ts')).policies,
  },
  version: { summary: 'Prints the version', load: async () => version },
}

const HELP = `Leyden turns agents' OpenTelemetry traces into reinforcement-learning transitions in ClickHouse.

Usage:
  leyden <command> [flags]

Commands:
${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(14)}${summary}`)
  .join('\n')}

Every command has --help with an example. The shortest way in:
  leyden run --config config/pipeline.yaml
`

/** @returns the exit code: 0, or 1 where something is wrong */
export async function main(args: string[], io: Io): Promise<number> {
  const [name, ...rest] = args
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    io.stdout(HELP)
    return 0
  }
  const command = name === '--version' || name === '-v' ? COMMANDS.version : Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!command) {
    io.stderr(`Error: unknown command "${name}" for "leyden"${didYouMean(name, Object.keys(COMMANDS))}\nRun 'leyden --help' for usage.\n`)
    return 1
  }
  return (await command.load())(rest, io)
}

const version: Command = async (args, io) => {
  io.stdout(args.includes('--help') ? VERSION_HELP : `leyden version ${packageVersion}\n`)
  return 0
}

const VERSION_HELP = `Prints the version.

Usage:
  leyden version

Example:
  leyden version
`

/** Whoever reads what is printed, as `head` does, may have seen enough. */
function readersLeft(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit()
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.stdout.on('error', readersLeft)
  process.exitCode = await main(process.argv.slice(2), {
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
    stdin: () => readText(process.stdin),
    terminal: process.stdout.isTTY === true,
    env: process.env,
    cwd: process.cwd(),
  })
}
