// Leyden's own log lines: for a person (tab separated, like the Collector's) or as JSON, one object a line.

import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import type { Writable } from 'node:stream'

import type { Log } from './component.ts'
import type { Telemetry } from './config.ts'
import { withoutPasswords } from './secrets.ts'

export type LogFields = Readonly<Record<string, unknown>>

export interface Logs {
  /** A log whose lines all carry these fields. */
  logFor(fields: LogFields): Log
  close(): Promise<void>
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof LEVELS)[number]

/** In each tick, the first lines of one text, and then every hundredth: the Collector's sampling. */
const SAMPLING = { tick_ms: 10_000, initial: 10, thereafter: 100 }
/** Different texts counted in one tick; more than that are not sampled. */
const SAMPLED_TEXTS = 1_000

export function createLogs({ level, encoding, output_paths }: Telemetry['logs'], resource: LogFields): Logs {
  const outputs = output_paths.map(open)
  const sampled = sampler()
  const write = encoding === 'json' ? jsonLine : consoleLine

  function log(line: Level, message: string, fields: LogFields): void {
    if (LEVELS.indexOf(line) < LEVELS.indexOf(level) || !sampled(line, message)) return
    const text = withoutPasswords(write(line, message, encoding === 'json' ? { resource, ...fields } : fields))
    for (const output of outputs) output.write(text)
  }

  return {
    logFor(own) {
      const line = (level: Level) => (message: string, fields?: LogFields) => log(level, message, { ...own, ...fields })
      return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
    },

    async close() {
      const files = outputs.filter((output) => output !== process.stderr && output !== process.stdout)
      // One that failed has said so already.
      await Promise.allSettled(files.map((file) => finished(file.end())))
    },
  }
}

function open(path: string): Writable {
  if (path === 'stderr') return process.stderr
  if (path === 'stdout') return process.stdout
  const file = createWriteStream(path, { flags: 'a' })
  file.on('error', (error) => process.stderr.write(`service::telemetry::logs::output_paths: ${error.message}\n`))
  return file
}

/** Floods come from failures, so only warnings and errors are sampled. */
function sampler(): (level: Level, message: string) => boolean {
  let seen = new Map<string, number>()
  let tick = 0
  return (level, message) => {
    if (level === 'debug' || level === 'info') return true
    const now = Math.floor(Date.now() / SAMPLING.tick_ms)
    if (now !== tick || seen.size >= SAMPLED_TEXTS) {
      seen = new Map()
      tick = now
    }
    const count = (seen.get(message) ?? 0) + 1
    seen.set(message, count)
    return count <= SAMPLING.initial || (count - SAMPLING.initial) % SAMPLING.thereafter === 0
  }
}

function consoleLine(level: Level, message: string, fields: LogFields): string {
  const columns = [new Date().toISOString(), level, message]
  if (Object.keys(fields).length) columns.push(JSON.stringify(fields, writable))
  return `${columns.join('\t')}\n`
}

function jsonLine(level: Level, message: string, fields: LogFields): string {
  return `${JSON.stringify({ level, ts: new Date().toISOString(), msg: message, ...fields }, writable)}\n`
}

/** An error is its message: stacks are for debuggers, and `cause` is for those who catch it. */
function writable(_key: string, value: unknown): unknown {
  if (value instanceof Error) return value.message
  return typeof value === 'bigint' ? String(value) : value
}
