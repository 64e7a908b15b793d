// One training run with one seed, through the whole loop: `leyden run` (endpoint, OTLP, ClickHouse), `leyden train` and `leyden rollouts run`
// with the agent's workers, each in a process of its own. What was begun goes on where it was.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { endDatabase, removeDatabase, rowsOf } from '../clickhouse.ts'
import { freePorts, keepRunning, reachable, type Process } from '../demo/processes.ts'
import { EVAL_TASKS, tasksOf, type Subject } from './experiments.ts'

export interface Trial {
  readonly experiment: Subject
  /** Steps of training; 0 evaluations where short. */
  readonly steps: number
  readonly tasks_per_step: number
  readonly group_size: number
  /** Updates that rollouts may run ahead of. */
  readonly ahead: 0 | 1
  /** Training tasks, each visited once before any comes again. */
  readonly tasks: number
  readonly evaluate: boolean
  readonly seed: number
  /** `key: value` lines laid over the experiment's pipeline.yaml. */
  readonly changes: readonly string[]
  /** Folder of this run alone. */
  readonly folder: string
  /** Ends the run before its last step. */
  readonly enough?: (steps: readonly Mean[]) => boolean
}

/** Both halves of a short form visit the same tasks, so that their rewards can be compared. */
export const shortForm = (steps: number, tasks_per_step: number) => ({
  ...{ steps, tasks_per_step, tasks: (steps / 2) * tasks_per_step },
  ...{ evaluate: false, seed: 1 },
})

export interface Mean {
  readonly reward: number
  readonly rollouts: number
}

export interface Point extends Mean {
  readonly version: number
}

export interface Result {
  readonly seed: number
  /** Mean reward of the rollouts that each version drew. */
  readonly train: readonly Point[]
  /** Mean reward of each step's rollouts, whatever version drew them. */
  readonly steps: readonly Mean[]
  /** Greedy, on held-out tasks. */
  readonly evaluations: readonly Point[]
  /** In the rows of all updates. */
  readonly tokens: number
  /** Seconds of the updates. */
  readonly updating: number
  /** How many attempts of training ended how: a status, or `unscored`. */
  readonly endings: Readonly<Record<string, number>>
  readonly seconds: number
  /** Why it did not come to its end. */
  readonly failure?: string
}

const LEYDEN = createRequire(import.meta.url).resolve('#leyden')
const START_MS = 60_000
/** How often it is told how far a run is: the question reads all of its transitions. */
const LOOK_MS = 5_000
const EVALUATIONS = 2

export interface Watching {
  /** Is given the points so far, now and then. */
  readonly told: (train: readonly Point[], evaluations: readonly Point[]) => void
  /** Ends the run and its processes. */
  readonly signal: AbortSignal
}

/** Rejects when it is aborted. What was done until then is kept. */
export async function runTrial(trial: Trial, { told, signal }: Watching): Promise<Result> {
  const { experiment, folder, seed, steps } = trial
  const finished = join(folder, 'result.json')
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as Result

  mkdirSync(folder, { recursive: true })
  const write = (file: string, tasks: readonly object[]) => {
    writeFileSync(join(folder, file), tasks.map((task) => JSON.stringify(task)).join('\n'))
    return join(folder, file)
  }
  const [otlp, endpoint, health] = (await freePorts(3)) as [number, number, number]
  const data = join(folder, 'data')
  const env = {
    ...process.env,
    CLICKHOUSE_URL: `embedded:${data}`,
    OTLP_PORT: String(otlp),
    ENDPOINT_PORT: String(endpoint),
    HEALTH_PORT: String(health),
    POLICIES_DIR: join(folder, 'policies'),
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://localhost:${otlp}`,
  }
  const changes = [`extensions::trainer::seed: ${seed}`, ...trial.changes]
  const config = [`examples/${experiment.name}/pipeline.yaml`, ...changes.map((change) => `yaml:${change}`)].flatMap((source) => [
    '--config',
    source,
  ])
  const evaluation = trial.evaluate
    ? [...['--eval-tasks', write('eval.jsonl', tasksOf(experiment, 'val', EVAL_TASKS))], '--eval-every', String(steps / EVALUATIONS)]
    : []

  const processes: Process[] = []
  const start = (name: string, args: readonly string[]) => {
    const started = keepRunning(name, [LEYDEN, ...args], env, join(folder, `${name}.log`))
    processes.push(started)
    return started
  }
  const clock = secondsSpent(folder)
  try {
    start('pipeline', ['run', ...config])
    await reachable(`http://localhost:${health}/`, START_MS)
    start('trainer', ['train', ...config])
    const runner = start('rollouts', [
      ...['rollouts', 'run', ...config, '--tasks', write('tasks.jsonl', tasksOf(experiment, 'train', trial.tasks)), ...evaluation],
      ...['--policy', experiment.name, '--steps', String(steps), '--seed', String(seed), '--workers', '2'],
      ...['--tasks-per-step', String(trial.tasks_per_step), '--group-size', String(trial.group_size), '--ahead', String(trial.ahead)],
      ...['--concurrency', String(experiment.concurrency), '--endpoint', `http://localhost:${endpoint}`],
      ...['--otlp', `http://localhost:${otlp}`, '--', ...experiment.worker],
    ])
    async function points(): Promise<Pick<Result, 'train' | 'evaluations'>> {
      const found = await rowsOf<Point & { mode: string }>(data, PROGRESS)
      const of = (wanted: string) => found.flatMap(({ mode, ...point }) => (mode === wanted ? [point] : []))
      return { train: of('train'), evaluations: of('val') }
    }
    const means = () => rowsOf<Mean>(data, rewardsByStep(trial.tasks_per_step))
    let running = true
    const done = runner.done.finally(() => (running = false))
    done.catch(() => {})
    while (running) {
      await Promise.race([done, sleep(LOOK_MS, undefined, { signal })])
      const { train, evaluations } = await points()
      told(train, evaluations)
      if (trial.enough?.(await means())) await runner.stop()
      clock()
    }
    await done
    // A runner that is told to end does so in peace, as if it were through.
    signal.throwIfAborted()
    const [spent] = await rowsOf<Pick<Result, 'tokens' | 'updating'>>(data, SPENT)
    const endings = await rowsOf<{ ending: string; attempts: number }>(data, ENDINGS)
    const result: Result = {
      seed,
      ...(await points()),
      steps: await means(),
      ...{ tokens: spent?.tokens ?? 0, updating: spent?.updating ?? 0 },
      endings: Object.fromEntries(endings.map(({ ending, attempts }) => [ending, attempts])),
      seconds: clock(),
    }
    writeFileSync(finished, JSON.stringify(result))
    return result
  } finally {
    clock()
    for (const running of processes.toReversed()) await running.stop()
    if (existsSync(finished)) {
      await removeDatabase(data)
      rmSync(join(folder, 'policies'), { recursive: true, force: true })
    } else await endDatabase(data)
  }
}

const PROGRESS = `SELECT mode, policy_version AS version, average AS reward, rollouts FROM policy_progress
  WHERE policy_version IS NOT NULL AND average IS NOT NULL ORDER BY version`
/** Groups are numbered in the order in which they were begun. */
const rewardsByStep = (tasks_per_step: number) => `SELECT avg(outcome) AS reward, count() AS rollouts
  FROM rollouts FINAL WHERE mode = 'train' AND outcome IS NOT NULL
  GROUP BY intDiv(toUInt32(splitByChar('/', group_id)[-1]), ${tasks_per_step}) AS step ORDER BY step`
const SPENT = 'SELECT sum(tokens) AS tokens, sum(seconds) AS updating FROM training_steps FINAL'
const ENDINGS = `SELECT if(status = 'succeeded' AND outcome IS NULL, 'unscored', status) AS ending, count() AS attempts
  FROM rollouts FINAL WHERE mode = 'train' GROUP BY ending ORDER BY attempts DESC`

/** Seconds that this run has taken, those of earlier starts included. */
function secondsSpent(folder: string): () => number {
  const file = join(folder, 'seconds')
  const before = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  const began = Date.now()
  return () => {
    const seconds = before + (Date.now() - began) / 1000
    writeFileSync(file, String(seconds))
    return seconds
  }
}
