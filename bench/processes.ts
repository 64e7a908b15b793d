// Processes under measurement: how they start and end, and what the operating system says of them.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const START_MS = 30_000
/** Kernel clock ticks per second; Linux fixes it at 100 for user space. */
const TICKS = 100

interface Launching {
  readonly env?: NodeJS.ProcessEnv
  /** Descriptor of the file that its standard output goes to; without one it is dropped. */
  readonly output?: number | undefined
}

/** Starts a process and waits until `url` answers. What it writes to its standard error is shown. */
export async function launch(
  command: string,
  args: readonly string[],
  url: string,
  { env = process.env, output }: Launching = {},
): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ['ignore', output ?? 'ignore', 'inherit'], env })
  for (const deadline = Date.now() + START_MS; !(await answers(url)); await sleep(50)) {
    if (child.exitCode === null && Date.now() < deadline) continue
    child.kill('SIGKILL')
    throw new Error(`${command} did not start: see above`)
  }
  return child
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

/** Seconds of CPU that a process has used; NaN where the system does not say (it has no /proc). */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}

/** The most memory that a process has had resident, in MB. */
export const peakMegabytes = (pid: number): Promise<number> => memory(pid, 'VmHWM')

/** What it has resident now. */
export const megabytes = (pid: number): Promise<number> => memory(pid, 'VmRSS')

async function memory(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, 'localhost'))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}

export async function exited(pid: number): Promise<void> {
  while (isAlive(pid)) await sleep(50)
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    (response) => response.body?.cancel().then(() => response.ok) ?? response.ok,
    () => false,
  )
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
