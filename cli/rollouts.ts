// Produces the rollouts that training needs: `leyden rollouts run … -- <command>` keeps workers, in any language, and hands them tasks in
// groups, in step with the trainer.

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { delivery } from '../agent/delivery.ts'
import { runRollouts, type Progress } from '../agent/runner.ts'
import type { Task } from '../agent/visits.ts'
import { startWorkers } from '../agent/workers.ts'
import { connect } from '../storage/connection.ts'
import { rolloutRun, type RolloutRun } from '../storage/rollout_run.ts'
import type { Command, Io } from './command.ts'
import { command, UsageError } from './flags.ts'
import { storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Runs tasks in groups on long-lived workers, in any language, and keeps in step with the trainer. A worker reads an order a line,
JSON {rollout_id, attempt_id, task_id, group_id, group_size, mode, input, base_url, model, sampling_parameters, traceparent}, and writes a
line {rollout_id, attempt_id, status, reward?} for each. A run that was killed goes on where it was when it is started again.

Usage:
  leyden rollouts run --tasks <file> [flags] -- <command>

Flags:
  --tasks <file>         a task a line, JSON; its task_id, else a hash of the line, is its id
  --group-size <n>       rollouts of each visit of a task, which are compared with each other (8)
  --tasks-per-step <n>   groups that an update of the trainer uses (12)
  --ahead <n>            how many updates rollouts may run ahead of the trainer, 0 or 1; without it nothing is waited for;
                         with it the run ends when the trainer has ended
  --steps <n>            ends after so many steps; without it, when it is told to stop
  --eval-tasks <file>    tasks that the live version answers greedily, in mode val
  --eval-every <n>       steps between evaluations (10)
  --workers <n>          worker processes (4)
  --concurrency <n>      rollouts that one worker has at once (1)
  --timeout <seconds>    a rollout that takes longer ends with status timeout (600)
  --max-attempts <n>     how often a rollout is tried whose worker is lost (3)
  --seed <n>             of the order of tasks (1)
  --name <text>          of the run; another name, another run. Without it, made of tasks, group size and seed
  --policy <name>        policy under training, which is also the model that workers are to ask for (default)
  --endpoint <url>       Leyden's OpenAI-compatible endpoint, which workers are to call (http://localhost:4000)
  --otlp <url>           an OTLP/HTTP receiver of Leyden, which is told how rollouts ended (http://localhost:4318)
${storageFlagsHelp}
Example:
  leyden rollouts run --tasks tasks.jsonl --group-size 8 --tasks-per-step 12 --ahead 1 --workers 4 -- node agent.js
`

/** How long Leyden may be away before the run ends. */
const PATIENCE_MS = 5 * 60_000
const ASK_AGAIN_MS = 1_000
/** Whoever starts a trainer again does so by then, and it has begun a step. */
const TRAINER_GRACE_MS = 60_000
/** A trainer that wants fewer rows than there are passes groups over for a while. */
const MORE_UPDATES = 2

const run = command({
  help: HELP,
  flags: {
    ...storageFlags,
    tasks: { type: 'string' },
    'group-size': { type: 'string', default: '8' },
    'tasks-per-step': { type: 'string', default: '12' },
    ahead: { type: 'string' },
    steps: { type: 'string' },
    'eval-tasks': { type: 'string' },
    'eval-every': { type: 'string', default: '10' },
    workers: { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '1' },
    timeout: { type: 'string', default: '600' },
    'max-attempts': { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    name: { type: 'string' },
    policy: { type: 'string', default: 'default' },
    endpoint: { type: 'string', default: 'http://localhost:4000' },
    otlp: { type: 'string', default: 'http://localhost:4318' },
  },
  words: true,
  async run(flags, io, words) {
    if (words.length === 0) throw new UsageError('name the worker behind "--": leyden rollouts run … -- node agent.js')
    if (flags.tasks === undefined) throw new UsageError('needs --tasks <file>')
    const whole = (flag: keyof typeof flags & string, min = 1) => wholeNumber(flag, flags[flag] as string, min)
    const ahead = flags.ahead === undefined ? null : whole('ahead', 0)
    const [tasks, eval_tasks] = [await tasksIn(flags.tasks, io), flags['eval-tasks'] ? await tasksIn(flags['eval-tasks'], io) : []]
    const [group_size, seed] = [whole('group-size'), whole('seed', 0)]
    const { policy } = flags
    const name = flags.name ?? `run-${digest(JSON.stringify([tasks, group_size, seed, policy])).slice(0, 8)}`
    const options = await storageOptions(flags, io)
    if (!options) return 1

    const { client, close } = await connect(options)
    const stop = new AbortController()
    const signals = ['SIGINT', 'SIGTERM'] as const
    const end = () => stop.abort()
    for (const signal of signals) process.once(signal, end)
    const workers = startWorkers({
      command: words,
      workers: whole('workers'),
      concurrency: whole('concurrency'),
      timeout: whole('timeout') * 1_000,
      env: { ...process.env, ...io.env },
      print: (line) => io.stderr(`${line}\n`),
    })
    const display = io.terminal ? bar(io) : lines(io)
    try {
      const ending = await runRollouts(
        {
          ...{ name, policy, group_size, seed, tasks, eval_tasks, ahead },
          tasks_per_step: whole('tasks-per-step'),
          steps: flags.steps === undefined ? Infinity : whole('steps'),
          eval_every: whole('eval-every'),
          max_attempts: whole('max-attempts'),
          trainer_grace: TRAINER_GRACE_MS,
          endpoint: flags.endpoint.replace(/\/$/, ''),
        },
        {
          workers,
          store: patient(rolloutRun(client, { name, policy, patience: (ahead ?? 0) + MORE_UPDATES })),
          deliver: delivery(flags.otlp.replace(/\/$/, ''), PATIENCE_MS),
          report: display.report,
          stop: stop.signal,
        },
      )
      if (ending === 'trainer ended') io.stderr(`nobody trains the policy "${policy}" any more: no rollout would be used\n`)
      return 0
    } catch (error) {
      io.stderr(`Error: ${(error as Error).message}\n`)
      return 1
    } finally {
      display.end()
      for (const signal of signals) process.off(signal, end)
      await workers.close()
      await close()
    }
  },
})

export const rollouts: Command = async (args, io) => {
  const [subcommand, ...rest] = args
  if (subcommand === 'run') return run(rest, io)
  if (subcommand === '--help' || subcommand === '-h') {
    io.stdout(HELP)
    return 0
  }
  io.stderr(`Error: must be "leyden rollouts run"${subcommand === undefined ? '' : ` (got "${subcommand}")`}\n`)
  return 1
}

/** ClickHouse may be away for a while. */
function patient(store: RolloutRun): RolloutRun {
  async function ask<T>(question: () => Promise<T>): Promise<T> {
    for (const until = Date.now() + PATIENCE_MS; ; await sleep(ASK_AGAIN_MS)) {
      try {
        return await question()
      } catch (error) {
        if (Date.now() > until) throw error
      }
    }
  }
  const { ended, live, trainer, spent } = store
  return { ended: () => ask(ended), live: () => ask(live), trainer: () => ask(trainer), spent: (groups) => ask(() => spent(groups)) }
}

async function tasksIn(file: string, io: Io): Promise<Task[]> {
  const text = await readFile(resolve(io.cwd, file), 'utf8').catch((error: Error) => {
    throw new UsageError(`${file}: ${error.message}`)
  })
  const tasks = text.split('\n').flatMap((line, i): Task[] => {
    if (line.trim() === '') return []
    try {
      const input = JSON.parse(line) as { task_id?: unknown } | null
      const id = input?.task_id
      return [{ task_id: typeof id === 'string' || typeof id === 'number' ? String(id) : digest(line.trim()).slice(0, 12), input }]
    } catch (error) {
      throw new UsageError(`${file}:${i + 1}: ${(error as Error).message}`)
    }
  })
  if (tasks.length === 0) throw new UsageError(`${file} holds no tasks`)
  return tasks
}

function wholeNumber(flag: string, text: string, min: number): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= min) return value
  throw new UsageError(`--${flag} must be a whole number, at least ${min} (got "${text}")`)
}

interface Display {
  report(progress: Progress): void
  end(): void
}

/** A line for each step that is done. */
function lines(io: Io): Display {
  let told = 0
  return {
    report({ steps }) {
      for (; told < steps.length && steps[told]!.ended === steps[told]!.rollouts; told++) io.stdout(`${summary(steps[told]!)}\n`)
    },
    end() {},
  }
}

const WIDTH = 24

/** The same, and below it a bar of what is going on. */
function bar(io: Io): Display {
  const { report, end } = lines({ ...io, stdout: (text) => io.stdout(`\r\u001b[K${text}`) })
  return {
    report(progress) {
      report(progress)
      const { steps, running, ready, version, statuses } = progress
      const now = steps.findLast(({ mode }) => mode === 'train')
      const full = now ? Math.round((WIDTH * now.ended) / now.rollouts) : 0
      const others = Object.entries(statuses).flatMap(([status, n]) => (status === 'succeeded' ? [] : `${n} ${status}`))
      const waiting = running === 0 && ready > 0 ? `waiting for an update with ${ready} groups` : `${running} running`
      const parts = [`step ${now?.step ?? 0}`, waiting, version === null ? 'no version yet' : `version ${version}`, ...others]
      io.stdout(`\r\u001b[K${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${parts.join(' · ')}`)
    },
    end() {
      end()
      io.stdout('\r\u001b[K')
    },
  }
}

function summary({ mode, step, rollouts, rewards }: Progress['steps'][number]): string {
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  const reward = rewards.length > 0 ? `, mean reward ${mean.toFixed(3)}` : ''
  return `step ${step}: ${rollouts} rollouts${mode === 'val' ? ' of evaluation' : ''}${reward}`
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
