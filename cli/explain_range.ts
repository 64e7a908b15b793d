// What a range of time holds, in a line for each rollout: how many calls, what became of them, and why not more.

import { connect } from '../storage/connection.ts'
import type { StorageOptions } from '../storage/open.ts'
import { rolloutsBetween, type RolloutRow } from '../storage/rollouts_between.ts'
import { counted } from './explanation.ts'
import { UsageError } from './flags.ts'
import { sinceOf } from './since.ts'

/** Rollouts told of at once: the last ones. */
const MOST = 10_000

export interface Range {
  readonly since: number
  readonly until: number
}

export function rangeOf({ since, until }: { since?: string; until?: string }, now: number): Range {
  const range = { since: since === undefined ? 0 : sinceOf(since, now), until: until === undefined ? now : sinceOf(until, now, '--until') }
  if (range.since >= range.until) throw new UsageError('--since must be before --until')
  return range
}

export async function explainRange(options: StorageOptions, { since, until }: Range, format: string): Promise<string> {
  const { client, close } = await connect(options)
  try {
    const found = await rolloutsBetween(client, since, until, MOST + 1)
    const more = found.length > MOST
    const rollouts = found.slice(more ? 1 : 0)
    return format === 'json' ? `${JSON.stringify({ rollouts, more }, null, 1)}\n` : `${inWords(rollouts, more)}\n`
  } finally {
    await close()
  }
}

function inWords(rollouts: readonly RolloutRow[], more: boolean): string {
  const sum = (of: (rollout: RolloutRow) => number) => rollouts.reduce((total, rollout) => total + of(rollout), 0)
  const rejects = new Map<string, number>()
  for (const rollout of rollouts) {
    for (const [reason, count] of Object.entries(rollout.rejects)) rejects.set(reason, (rejects.get(reason) ?? 0) + count)
  }
  const found = [
    ...became(
      sum(({ calls }) => calls),
      sum(({ transitions }) => transitions),
    ),
    ...rejected([...rejects]),
  ]
  return [
    ...(more ? [`more than ${MOST} ended then; these are the last:`] : []),
    ...rollouts.map(line),
    `${counted(rollouts.length, 'rollout')}: ${found.join(', ')}; ${rollouts.filter(({ outcome }) => outcome === null).length} without an outcome`,
  ].join('\n')
}

function line({ rollout_id, attempt_id, ended_at, calls, transitions, rejects, outcome, mode, complete }: RolloutRow): string {
  const found = [
    ...became(calls, transitions),
    ...rejected(Object.entries(rejects)),
    outcome === null ? 'no outcome' : `outcome ${outcome}`,
    ...(mode === 'val' ? ['mode val'] : []),
    ...(complete ? [] : ['incomplete']),
  ]
  return `${ended_at.slice(0, 19)}  ${rollout_id}${attempt_id && `/${attempt_id}`}  ${found.join(', ')}`
}

const became = (calls: number, transitions: number) => [counted(calls, 'call'), counted(transitions, 'transition')]

function rejected(reasons: readonly (readonly [string, number])[]): string[] {
  if (reasons.length === 0) return []
  const most = reasons.toSorted(([a, n], [b, m]) => m - n || a.localeCompare(b))
  return [`rejected: ${most.map(([reason, count]) => `${count} ${reason}`).join(' and ')}`]
}
