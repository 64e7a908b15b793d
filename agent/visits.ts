// Which tasks are visited in which order, and the ids of what comes of it: the same for the same tasks, seed and name of the run, so that a
// run that was killed goes on where it was.

import { createHash, randomBytes } from 'node:crypto'

import type { Order } from './order.ts'

export interface Task {
  readonly task_id: string
  readonly input: unknown
}

/** A group of rollouts to be run: one visit of a task. */
export interface Visit {
  readonly group_id: string
  readonly task: Task
  readonly mode: Order['mode']
  readonly model: string
  readonly rollout_ids: readonly string[]
}

export interface Run {
  /** Name of the run; ids begin with it. */
  readonly name: string
  readonly policy: string
  readonly group_size: number
  readonly seed: number
}

/** The tasks over and over, shuffled anew each time. */
export function* trainingVisits(run: Run, tasks: readonly Task[]): Generator<Visit> {
  let number = 0
  for (let round = 0; ; round++) {
    const place = new Map(tasks.map((task, i) => [task, digest(`${run.seed}/${round}/${i}`)]))
    for (const task of tasks.toSorted((a, b) => (place.get(a)! < place.get(b)! ? -1 : 1))) {
      yield visit(`${run.name}/${number++}`, task, { mode: 'train', model: run.policy, size: run.group_size })
    }
  }
}

/** Every task once, answered by one version of the policy whatever comes after it. */
export const evaluationVisits = ({ name, policy }: Run, tasks: readonly Task[], version: number): Visit[] =>
  tasks.map((task, i) => visit(`${name}/val@${version}/${i}`, task, { mode: 'val', model: `${policy}@${version}`, size: 1 }))

function visit(group_id: string, task: Task, { mode, model, size }: { mode: Visit['mode']; model: string; size: number }): Visit {
  const rollout_ids = Array.from({ length: size }, (_, i) => `ro-${digest(`${group_id}/${i}`).slice(0, 12)}`)
  return { group_id, task, mode, model, rollout_ids }
}

/** @param endpoint address of the endpoint, without a path */
export function orderOf(visit: Visit, rollout_id: string, endpoint: string): Order {
  const attempt_id = `at-${randomBytes(4).toString('hex')}`
  return {
    rollout_id,
    attempt_id,
    task_id: visit.task.task_id,
    group_id: visit.group_id,
    group_size: visit.rollout_ids.length,
    mode: visit.mode,
    input: visit.task.input,
    base_url: `${endpoint}/rollout/${rollout_id}/attempt/${attempt_id}${visit.mode === 'val' ? '/mode/val' : ''}/v1`,
    model: visit.model,
    sampling_parameters: visit.mode === 'val' ? { temperature: 0 } : {},
    traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
  }
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
