// Makes a rollout of the items that belong to it.

import type { Dialect } from './dialect.ts'
import type { Stranger } from './item_reader.ts'
import { noteTaker } from './notes.ts'
import { readItems } from './reading.ts'
import { outcome } from './rewards.ts'
import type { Rollout } from './rollout.ts'
import { splitKey } from './routing.ts'
import type { Item } from './span.ts'
import { RESPONSE, SESSION } from './stray_rewards.ts'

export interface Closing {
  readonly key: string
  readonly closed_by: Rollout['closed_by']
  readonly revision: number
  /** Newest arrival among the items, ms since the epoch. */
  readonly covered_until: number
  /** Attributes by whose value a reward may name the rollout. */
  readonly join_keys?: readonly string[]
}

/**
 * @param items spans and log records in any order, as readItems() takes them
 * @returns the rollout as it enters its pipeline: calls, tools and rewards read, nothing credited yet
 */
export function assemble(items: Iterable<Item | Stranger>, dialects: readonly Dialect[], closing: Closing): Rollout {
  const taker = noteTaker(SESSION, closing.join_keys ?? [])
  const read = readItems(items, dialects, taker.note)
  const scored = outcome(read.rewards, read.calls, read.tree)
  const { keys, ...notes } = taker.notes()
  for (const { response_id, session } of read.calls) {
    keys.add(RESPONSE, response_id)
    keys.add(SESSION, session)
  }
  return {
    tenant: '',
    ...splitKey(closing.key),
    ...notes,
    closed_by: closing.closed_by,
    revision: closing.revision,
    covered_until: closing.covered_until,
    keys: keys.list(),
    tree: read.tree,
    calls: read.calls,
    tools: read.tools,
    rewards: read.rewards,
    problems: [...read.problems, ...scored.problems],
    air_mode: '',
    credit: null,
    outcome: scored.outcome,
    transitions: [],
    rejects: [],
  }
}
