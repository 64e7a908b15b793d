// Leyden as a process of its own, as a user starts it, for tests that kill it.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export const CLI = fileURLToPath(new URL('../dist/cli/leyden.js', import.meta.url))

export interface LeydenProcess {
  readonly child: ChildProcess
  /** All of standard error so far. */
  log(): string
  /** Resolves when standard error holds the text; rejects when the process ends first. */
  says(text: string, ms?: number): Promise<void>
  /** Sends the signal and resolves with the exit code, null where the signal ended it. */
  stop(signal: NodeJS.Signals): Promise<number | null>
}

export function spawnLeyden(args: string[], options: { cwd: string; env?: Record<string, string> }): LeydenProcess {
  const child = spawn(process.execPath, [CLI, ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  const ended = once(child, 'exit')
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (log += text))

  async function says(text: string, ms = 30_000): Promise<void> {
    const until = Date.now() + ms
    while (!log.includes(text)) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`ended before it said "${text}":\n${log}`)
      if (Date.now() > until) throw new Error(`did not say "${text}" within ${ms} ms:\n${log}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async function stop(signal: NodeJS.Signals): Promise<number | null> {
    child.kill(signal)
    const [code] = (await ended) as [number | null]
    return code
  }

  return { child, log: () => log, says, stop }
}

interface Running {
  readonly pid: number
  readonly parent: number
  /** Its command line. */
  readonly line: string
}

export function processes(): Running[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 2 ** 26 })
    .trim()
    .split('\n')
  return lines.map((text) => {
    const [, pid, parent, line] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(text)!
    return { pid: Number(pid), parent: Number(parent), line: line! }
  })
}

/** Those that a process has started, and those that they have. */
export function processesBelow(root: number, all: readonly Running[] = processes()): Running[] {
  return all.filter(({ parent }) => parent === root).flatMap((child) => [child, ...processesBelow(child.pid, all)])
}
