// Drives training: visits tasks in groups, has workers run them, says how each rollout ended, and keeps in step with the trainer. Its memory is
// the table `rollouts`: what did not end there is run again, as a new attempt.
//
// In step means: at most tasks_per_step × (ahead + 1) groups are open, that is running, or waiting for an update that uses them. A group
// without signal is not waited for, and neither is one that updates have passed over. So a trainer that wants so many groups with signal gets
// them, and with `ahead` 0 what comes next is sampled by the version that they made.

import { setTimeout as sleep } from 'node:timers/promises'

import type { Outcome } from './delivery.ts'
import type { Order } from './order.ts'
import { evaluationVisits, orderOf, trainingVisits, type Run, type Task, type Visit } from './visits.ts'
import type { Workers } from './workers.ts'

export interface RunnerOptions extends Run {
  readonly tasks: readonly Task[]
  readonly tasks_per_step: number
  /** Null: the trainer is not waited for. */
  readonly ahead: number | null
  readonly steps: number
  readonly eval_tasks: readonly Task[]
  /** Steps between evaluations of the live version. */
  readonly eval_every: number
  readonly max_attempts: number
  /** Milliseconds in which a trainer that was at work may be started again, before it counts as ended. */
  readonly trainer_grace: number
  /** Address of the endpoint, without a path. */
  readonly endpoint: string
}

/** The world as the runner needs it. */
export interface RunnerParts {
  readonly workers: Workers
  readonly store: {
    /** Ids of the run's rollouts that ended, by whichever attempt. */
    ended(): Promise<ReadonlySet<string>>
    /** Those of the groups that no update will use (again). */
    spent(groups: readonly string[]): Promise<ReadonlySet<string>>
    /** The live version of the policy; null before there is one. */
    live(): Promise<number | null>
    /** The trainer of the policy: ended where it was at work when the run had begun, and no more. */
    trainer(): Promise<'not seen' | 'at work' | 'ended'>
  }
  deliver(order: Order, outcome: Outcome): Promise<void>
  report(progress: Progress): void
  /** Ends the run; what is running is finished first. */
  readonly stop: AbortSignal
}

/** What a person wants to see. */
export interface Progress {
  /** All steps that were begun, the newest last. */
  readonly steps: readonly StepProgress[]
  readonly running: number
  /** Groups that the trainer has not used yet. */
  readonly ready: number
  readonly version: number | null
  /** Rollouts by status, and attempts whose worker was `lost`. */
  readonly statuses: Readonly<Record<string, number>>
}

export interface StepProgress {
  readonly mode: Visit['mode']
  readonly step: number
  readonly rollouts: number
  ended: number
  /** Of those whose worker gave one. */
  readonly rewards: number[]
}

const LOOK_MS = 200
/** Of the time, looking takes a quarter at most: where ClickHouse is slow to answer, it is asked less often. */
const REST = 3
/** How long it may take until what was told of a rollout is stored. */
const STORED_MS = 30_000

/**
 * Resolves when all steps are done and stored, or the trainer that they are for has ended: then with that. Rejects when workers cannot be kept
 * alive or Leyden stays away.
 */
export async function runRollouts(
  options: RunnerOptions,
  { workers, store, deliver, report, stop }: RunnerParts,
): Promise<'done' | 'trainer ended'> {
  const { tasks_per_step, group_size, ahead, eval_tasks } = options
  const most = tasks_per_step * ((ahead ?? 1) + 1)
  const ended = await store.ended()
  const steps: StepProgress[] = []
  const statuses: Record<string, number> = {}
  /** Groups that run (false), or wait for the trainer (true). */
  const open = new Map<string, boolean>()
  const groups = new Set<Promise<void>>()
  let running = 0
  let version = await store.live()
  let failure: Error | undefined
  /** Rollouts whose end was told. */
  const told = new Set<string>()
  let trainerEnded = false
  let lastAtWork = performance.now()

  const visits = trainingVisits(options, options.tasks)
  for (let step = 0; step < options.steps && going(); step++) {
    if (step % options.eval_every === 0) await evaluate(step)
    const progress = begin({ mode: 'train', step, rollouts: tasks_per_step * group_size })
    for (let i = 0; i < tasks_per_step; i++) {
      const { value: visit } = visits.next()
      await room()
      if (going()) start(visit!, progress)
    }
  }
  await Promise.all(groups)
  if (options.steps % options.eval_every === 0 && going()) await evaluate(options.steps)
  await Promise.all(groups)
  if (failure) throw failure
  await stored()
  return trainerEnded ? 'trainer ended' : 'done'

  function going(): boolean {
    return !stop.aborted && failure === undefined && !trainerEnded
  }

  async function evaluate(step: number): Promise<void> {
    if (eval_tasks.length === 0) return
    // A trainer that has only just started publishes its base in a moment; without one there may never be a version.
    while ((version = await store.live()) === null && ahead !== null && going()) await sleep(LOOK_MS)
    if (version === null) return
    const progress = begin({ mode: 'val', step, rollouts: eval_tasks.length })
    for (const visit of evaluationVisits(options, eval_tasks, version)) start(visit, progress)
  }

  function begin(step: Pick<StepProgress, 'mode' | 'step' | 'rollouts'>): StepProgress {
    const progress = { ...step, ended: 0, rewards: [] }
    steps.push(progress)
    return progress
  }

  /** Waits until another group may begin. */
  async function room(): Promise<void> {
    while (going() && open.size >= most) {
      const began = performance.now()
      const ready = [...open].flatMap(([group, finished]) => (finished ? group : []))
      const spent = ahead === null ? ready : ready.length > 0 ? await store.spent(ready) : []
      for (const group of spent) open.delete(group)
      version = await store.live()
      tell()
      if (open.size < most) return
      await lookForTrainer()
      await sleep(Math.max(LOOK_MS, REST * (performance.now() - began)))
    }
  }

  /** One that did all of its steps will use no group any more. */
  async function lookForTrainer(): Promise<void> {
    const now = performance.now()
    const trainer = await store.trainer()
    if (trainer === 'at work') lastAtWork = now
    else if (trainer === 'ended' && now - lastAtWork > options.trainer_grace) trainerEnded = true
  }

  /** Whoever reads what came of the run, when it has ended, finds all of it. */
  async function stored(): Promise<void> {
    for (const until = performance.now() + STORED_MS; told.size > 0 && !stop.aborted; await sleep(LOOK_MS)) {
      for (const id of await store.ended()) told.delete(id)
      if (performance.now() > until) return
    }
  }

  function start(visit: Visit, progress: StepProgress): void {
    if (visit.mode === 'train') open.set(visit.group_id, false)
    const group = Promise.all(visit.rollout_ids.map((id) => rollout(visit, id, progress)))
      .then(() => void (visit.mode === 'train' && open.set(visit.group_id, true)))
      .catch((error: Error) => void (failure ??= error))
      .finally(() => groups.delete(group))
    groups.add(group)
  }

  async function rollout(visit: Visit, id: string, progress: StepProgress): Promise<void> {
    if (!ended.has(id)) await attempt(visit, id, progress.rewards)
    progress.ended++
    tell()
  }

  /** What a worker answers counts; one that is lost has the rollout tried again. */
  async function attempt(visit: Visit, id: string, rewards: number[]): Promise<void> {
    for (let left = options.max_attempts; left > 0; left--) {
      const order = orderOf(visit, id, options.endpoint)
      running++
      const result = await workers.run(order).finally(() => running--)
      await deliver(order, result ?? { status: 'failed' })
      told.add(id)
      const outcome = result?.status ?? 'lost'
      statuses[outcome] = (statuses[outcome] ?? 0) + 1
      if (result?.reward !== undefined) rewards.push(result.reward)
      if (result) return
    }
  }

  function tell(): void {
    const ready = [...open.values()].filter((finished) => finished).length
    report({ steps, running, ready, version, statuses })
  }
}
