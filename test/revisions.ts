// Everything that becomes of rollouts that are due.

import type { Rollout } from '../data/rollout.ts'
import { nextRevisions } from '../storage/revisions.ts'

/** `portions`: the ids of those that were read together. */
export async function allRevisions(...due: Parameters<typeof nextRevisions>) {
  const revisions: Rollout[] = []
  const portions: string[][] = []
  let beyond = 0
  for await (const portion of nextRevisions(...due)) {
    revisions.push(...portion.revisions)
    portions.push(portion.revisions.map(({ rollout_id }) => rollout_id))
    beyond += portion.beyond
  }
  return { revisions, portions, beyond }
}
