// npm run bench -- kill: the demo, while each of its processes is killed (-9) in turn. It has to end as well as when nobody disturbs it.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { processes, processesBelow } from '../test/process.ts'
import { formatTable } from './table.ts'

/** What they are called, and how their command lines read. ClickHouse belongs to nobody: it is found by its folder. */
const PROCESSES = [
  ['a worker', /^\S+ \S*demo\/worker\.js$/],
  ['the trainer', /leyden\.js train/],
  ['the runner', /leyden\.js rollouts run/],
  ['the pipeline and its endpoint', /leyden\.js run/],
  ['ClickHouse', /embedded\/server\.js/],
] as const

const LOOK_MS = 100

/** @param seconds between two of them @param rounds over all */
export async function killDemo(seconds: number, rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'leyden-kill-'))
  const demo = spawn(process.execPath, ['dist/examples/demo/run.js'], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, TMPDIR: folder },
  })
  const ended = once(demo, 'exit')
  const killed: [string, string][] = []
  const began = Date.now()
  for (let i = 0; i < rounds * PROCESSES.length; i++) {
    await Promise.race([ended, sleep(seconds * 1_000)])
    const [name, command] = PROCESSES[i % PROCESSES.length]!
    const one = await running(demo, folder, command)
    if (!one) break
    process.kill(one.pid, 'SIGKILL')
    killed.push([name, `${((Date.now() - began) / 1_000).toFixed(0)} s`])
  }
  const [code] = (await ended) as [number | null]
  console.log(`\n${formatTable(['killed', 'after'], killed)}\n\nThe demo ended with exit code ${code}.`)
  if (code === 0) rmSync(folder, { recursive: true, force: true })
  else process.exitCode = 1
}

/** A process of the demo, once there is one; undefined when the demo has ended. */
async function running(demo: ChildProcess, folder: string, command: RegExp): Promise<{ readonly pid: number } | undefined> {
  for (; demo.exitCode === null; await sleep(LOOK_MS)) {
    const found = [...processesBelow(demo.pid!), ...processes().filter(({ line }) => line.includes(folder))]
    const one = found.find(({ line }) => command.test(line))
    if (one) return one
  }
  return undefined
}
