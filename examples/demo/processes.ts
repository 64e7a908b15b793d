// The demo's processes: started, kept alive, stopped. Any of them may be killed while the demo runs; it is started again and goes on.

import { spawn, type ChildProcess } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Process {
  readonly name: string
  /** Resolves when it ends by itself with exit code 0; rejects when it cannot be kept alive. */
  readonly done: Promise<void>
  stop(): Promise<void>
}

const MAX_RESTARTS = 5
const RESTART_MS = 300

/** @param log file that gets what it prints */
export function keepRunning(name: string, args: readonly string[], env: NodeJS.ProcessEnv, log: string): Process {
  const output = createWriteStream(log, { flags: 'a' })
  let child: ChildProcess
  let stopping = false
  let ended: Promise<unknown>

  async function run(): Promise<void> {
    for (let restarts = 0; ; restarts++) {
      child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
      for (const stream of [child.stdout!, child.stderr!]) stream.pipe(output, { end: false })
      const exit = new Promise<string>((resolve) => child.once('close', (code, signal) => resolve(signal ?? `exit code ${code}`)))
      ended = exit
      const how = await exit
      if (stopping || how === 'exit code 0') return
      if (restarts === MAX_RESTARTS) throw new Error(`${name} ended with ${how}; what it said is in ${log}`)
      console.log(`  ${name} ended (${how}) and is started again`)
      await sleep(RESTART_MS)
      if (stopping) return
    }
  }

  const done = run()
  // Whoever waits for it hears of the failure; nobody need wait.
  done.catch(() => {})
  return {
    name,
    done,
    async stop() {
      stopping = true
      child.kill('SIGTERM')
      await ended
    },
  }
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once('listening', resolve))))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

export async function reachable(url: string, ms: number): Promise<void> {
  for (const until = Date.now() + ms; ; await sleep(100)) {
    const there = await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    )
    if (there) return
    if (Date.now() > until) throw new Error(`${url} does not answer`)
  }
}
