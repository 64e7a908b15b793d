// Runs the pipelines of a configuration until a signal says to stop. SIGHUP or a changed file
// brings a new configuration, which is checked whole before anything that runs is touched.

import { watch, type FSWatcher } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'

import type { Plan } from '../pipeline/config.ts'
import { startGraph, type Running } from '../pipeline/graph.ts'
import { createTelemetry, type Telemetry } from '../pipeline/telemetry.ts'
import type { Io } from './command.ts'
import { command, configFlags, configFlagsHelp, loadPlan } from './flags.ts'
import { packageVersion } from './version.ts'

const HELP = `Runs the pipelines of a configuration until SIGTERM or SIGINT; what was accepted is then drained, within service::shutdown_timeout.
SIGHUP or a changed file loads the configuration anew: it is checked whole first, and where it is wrong the old one runs on.

Usage:
  leyden run --config <source>

Flags:
${configFlagsHelp}
Example:
  leyden run --config config/pipeline.yaml --set receivers.otlp.protocols.http.endpoint=0.0.0.0:4318
`

/** Editors write a file in several steps; so long after the last one it is read. */
const SETTLE_MS = 200

export const run = command({
  help: HELP,
  flags: configFlags,
  async run(flags, io) {
    const plan = await loadPlan(flags, io)
    if (!plan) return 1
    // Before anything starts, so that a signal during the start is not lost.
    const stop = nextSignal()
    let telemetry: Telemetry | undefined
    let running: Running
    try {
      telemetry = await createTelemetry(plan.service.telemetry, packageVersion)
      running = await startGraph(plan, telemetry)
    } catch (error) {
      io.stderr(`Error: ${(error as Error).message}\n`)
      await telemetry?.shutdown()
      return 1
    }
    const forget = onChange(flags.config ?? [], io.cwd, () => reload(flags, io, running, telemetry))
    const signal = await stop
    telemetry.log.info('Received signal from OS', { signal })
    forget()
    return (await shutdown(running, telemetry)) ? 0 : 1
  },
})

function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      // A second one, while the first is being obeyed, ends the process at once.
      process.once(signal, () => resolve(signal))
    }
  })
}

/** @returns a function that ends the watch */
function onChange(sources: readonly string[], cwd: string, reload: () => Promise<void>): () => void {
  let timer: NodeJS.Timeout | undefined
  const soon = () => {
    clearTimeout(timer)
    timer = setTimeout(() => void reload(), SETTLE_MS)
  }
  process.on('SIGHUP', soon)
  const watchers = sources.flatMap((source) => watchFile(source, cwd, soon))
  return () => {
    clearTimeout(timer)
    process.off('SIGHUP', soon)
    for (const watcher of watchers) watcher.close()
  }
}

/** The folder is watched, for an editor may put a new file in the old one's place. */
function watchFile(source: string, cwd: string, changed: () => void): FSWatcher[] {
  if (/^(env|yaml):/.test(source)) return []
  const path = resolve(cwd, source.replace(/^file:/, ''))
  try {
    return [watch(dirname(path), { persistent: false }, (_event, name) => name === basename(path) && changed())]
  } catch {
    // Some file systems cannot be watched: SIGHUP still works there.
    return []
  }
}

async function reload(flags: Parameters<typeof loadPlan>[0], io: Io, running: Running, telemetry: Telemetry): Promise<void> {
  let plan: Plan | undefined
  try {
    plan = await loadPlan(flags, io)
    if (plan) await running.reload(plan)
    else telemetry.log.error('The new configuration is not valid; the old one runs on.')
  } catch (error) {
    telemetry.log.error('Neither the new configuration nor the old one starts', { error: (error as Error).message })
    process.exitCode = 1
    process.kill(process.pid, 'SIGTERM')
  }
}

/** @returns whether everything was drained */
async function shutdown(running: Running, telemetry: Telemetry): Promise<boolean> {
  try {
    await running.shutdown()
    return true
  } catch (error) {
    telemetry.log.error((error as Error).message)
    return false
  } finally {
    await telemetry.shutdown()
  }
}
