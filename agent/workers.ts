// Long-lived worker processes in any language, which run one attempt after another, or several at once. A worker that ends is replaced; its
// attempts are lost. One that does not answer in time is replaced too, since it may hang for good.

import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

import { readResult, type Order, type Result } from './order.ts'

export interface WorkersOptions {
  /** Program and arguments. */
  readonly command: readonly string[]
  readonly workers: number
  /** Attempts that one worker has at once. */
  readonly concurrency: number
  /** Milliseconds that an attempt may take. */
  readonly timeout: number
  readonly env: NodeJS.ProcessEnv
  /** Is given what workers print that is no result. */
  print(line: string): void
}

export interface Workers {
  /** Null: the worker was lost. Rejects when workers only ever end, without one answer. */
  run(order: Order): Promise<Result | null>
  /** Lets workers end by themselves, and ends those that do not. */
  close(): Promise<void>
}

interface Job {
  readonly order: Order
  resolve(result: Result | null): void
  reject(error: Error): void
  timer?: NodeJS.Timeout
}

interface Worker {
  readonly child: ChildProcess
  readonly jobs: Map<string, Job>
  /** Gets no more orders: an attempt ran out of time, so it may hang. */
  retired: boolean
}

/** So many workers in a row that end without an answer are no accident. */
const MAX_FRUITLESS = 3
const RESTART_MS = 200
const END_MS = 5_000

export function startWorkers({ command, workers: size, concurrency, timeout, env, print }: WorkersOptions): Workers {
  const workers = new Set<Worker>()
  const waiting: Job[] = []
  let fruitless = 0
  let failure: Error | null = null
  let closing = false
  for (let i = 0; i < size; i++) start()

  function start(): void {
    if (closing || failure) return
    const child = spawn(command[0]!, command.slice(1), { env, stdio: ['pipe', 'pipe', 'inherit'] })
    const worker: Worker = { child, jobs: new Map(), retired: false }
    workers.add(worker)
    // A worker that is gone does not read: its end says so.
    child.stdin!.on('error', () => {})
    createInterface({ input: child.stdout! }).on('line', (line) => answered(worker, line))
    let error: Error | undefined
    child.on('error', (reason) => (error = reason))
    child.on('close', (code, signal) => void ended(worker, error?.message ?? (signal ? `signal ${signal}` : `exit code ${code}`)))
    dispatch()
  }

  function answered(worker: Worker, line: string): void {
    const result = readResult(line)
    if (!result) return print(line)
    const job = worker.jobs.get(result.attempt_id)
    if (job?.order.rollout_id !== result.rollout_id) return
    fruitless = 0
    settle(worker, job, result)
  }

  function settle(worker: Worker, job: Job, result: Result | null): void {
    clearTimeout(job.timer)
    worker.jobs.delete(job.order.attempt_id)
    job.resolve(result)
    if (worker.retired && worker.jobs.size === 0) worker.child.kill('SIGKILL')
    dispatch()
  }

  async function ended(worker: Worker, how: string): Promise<void> {
    workers.delete(worker)
    for (const job of worker.jobs.values()) settle(worker, job, null)
    if (worker.retired || closing) return
    if (++fruitless >= MAX_FRUITLESS) {
      failure = new Error(`${fruitless} workers in a row ended without an answer (${how}): ${command.join(' ')}`)
      for (const job of waiting.splice(0)) job.reject(failure)
      return
    }
    await sleep(RESTART_MS)
    start()
  }

  function dispatch(): void {
    while (waiting.length > 0) {
      const free = [...workers].filter(({ jobs, retired, child }) => !retired && jobs.size < concurrency && child.exitCode === null)
      const [worker] = free.sort((a, b) => a.jobs.size - b.jobs.size)
      if (!worker) return
      const job = waiting.shift()!
      worker.jobs.set(job.order.attempt_id, job)
      job.timer = setTimeout(() => expire(worker, job), timeout)
      worker.child.stdin!.write(`${JSON.stringify(job.order)}\n`)
    }
  }

  function expire(worker: Worker, job: Job): void {
    if (!worker.retired) {
      worker.retired = true
      start()
    }
    const { rollout_id, attempt_id } = job.order
    settle(worker, job, { rollout_id, attempt_id, status: 'timeout' })
  }

  return {
    run: (order) =>
      new Promise((resolve, reject) => {
        if (failure) return reject(failure)
        waiting.push({ order, resolve, reject })
        dispatch()
      }),
    async close() {
      closing = true
      const gone = [...workers].map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const ended = new Promise((resolve) => child.once('close', resolve))
        child.stdin!.end()
        const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
        await ended
        clearTimeout(timer)
      })
      await Promise.all(gone)
    },
  }
}
