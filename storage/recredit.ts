// What is stored is credited again for a method that changed: from outlines, since spans may have expired. Stage B follows for every
// group concerned, and both are written together, so that what was late or changed takes the same way as what was on time.

import type { RewardOptions } from '../data/rewards.ts'
import type { CreditSpec } from '../data/rollout.ts'
import { creditFromOutline } from './credit_again.ts'
import type { Become, CreditJob } from './credit_job.ts'
import type { Writer } from './credit_rows.ts'
import type { Outline, OutlinedRewards } from './outline.ts'
import type { KnownRollout } from './storage.ts'

export interface Recredit {
  /** Only rollouts that ended at this time or later, ms since the epoch. */
  readonly since?: number
  /** How they are credited from now on; what is not given stays as it was. */
  readonly credit?: Partial<CreditSpec>
  readonly reward_options?: RewardOptions
}

export interface Recredited {
  readonly rollouts: number
  readonly groups: number
}

/** What becomes of them is held in memory. */
const TOGETHER = 2_000

type Deps = Writer & { readonly credit: CreditJob }

export async function recredit({ credit, ...writer }: Deps, request: Recredit): Promise<Recredited> {
  const { client, run } = writer
  const query = `
    SELECT rollout_id, attempt_id, group_id FROM rollouts FINAL
    WHERE credit != '' AND ended_at >= fromUnixTimestamp64Milli({since:Int64}) ORDER BY group_id, rollout_id, attempt_id`
  const wanted = await run(async () =>
    (await client.query({ query, query_params: { since: request.since ?? 0 }, format: 'JSONEachRow' })).json<KnownRollout>(),
  )
  const groups = new Set<string>()
  let rollouts = 0
  const become: Become = (row, _, outline) => {
    if (!outline) return 'outline'
    if (row.group_id !== '') groups.add(row.group_id)
    rollouts++
    const rewards = JSON.parse(row.rewards) as OutlinedRewards
    const options = request.reward_options ?? rewards.options
    return creditFromOutline(row, JSON.parse(String(outline)) as Outline, { ...rewards, ...(options && { options }) }, request.credit)
  }
  for (let i = 0; i < wanted.length; i += TOGETHER) await credit.again(wanted.slice(i, i + TOGETHER), become, { settled: true })
  return { rollouts, groups: groups.size }
}
