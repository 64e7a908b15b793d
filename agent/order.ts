// What passes between `leyden rollouts run` and its workers: an order a line on their standard input, a result a line on their standard
// output. Names of fields are those of agent-lightning's store.

import { isEnd, type End } from '../data/rollout.ts'

/** One attempt of a rollout, to be run. */
export interface Order {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly task_id: string
  readonly group_id: string
  readonly group_size: number
  readonly mode: 'train' | 'val'
  /** The line of the tasks file. */
  readonly input: unknown
  /** Where to send calls of the model: the endpoint then knows which rollout they belong to. */
  readonly base_url: string
  /** Which model to ask for. */
  readonly model: string
  /** What to ask it with, beside the agent's own settings. */
  readonly sampling_parameters: { readonly temperature?: number }
  /** Parent of the agent's spans. */
  readonly traceparent: string
}

/** Which rollout, of which task and group. */
export type Ids = Pick<Order, 'rollout_id' | 'task_id' | 'group_id' | 'group_size' | 'mode'>

export interface Result {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly status: End
  readonly reward?: number
}

/** Null where the line is none: whatever else an agent prints. */
export function readResult(line: string): Result | null {
  if (!line.startsWith('{')) return null
  try {
    const { rollout_id, attempt_id, status, reward } = JSON.parse(line) as Record<string, unknown>
    if (typeof rollout_id !== 'string' || typeof attempt_id !== 'string' || !isEnd(status)) return null
    const result = { rollout_id, attempt_id, status }
    return typeof reward === 'number' ? { ...result, reward } : result
  } catch {
    return null
  }
}
