// A table of groups that nothing adds to, for tests that train on it again and again: rollouts of two calls, of which the second extends
// the first, in the vocabulary of the calculator's policy.

import type { CreditSpec, Rollout } from '../data/rollout.ts'
import { rollout } from './conformance.ts'
import type { TestStorage } from './storage.ts'

const credit: CreditSpec = {
  ...{ method: 'identical', gamma: 1, lambda: 1, baseline: 'auto', normalize: 'none' },
  ...{ min_group: 2, reward_range: [0, 1], include_steps: false },
}

export interface TableOptions {
  readonly policy: string
  readonly groups: number
  readonly version?: number | null
  readonly mode?: Rollout['mode']
  /** Of the rollouts of a group. */
  readonly outcomes?: readonly number[]
  /** Added to every token id. */
  readonly shift?: number
  readonly params?: Readonly<Record<string, unknown>>
  /** false: only the text is known. */
  readonly tokens?: boolean
}

/** Adds credited groups `<policy>/0` … to the storage. */
export async function fillTable(storage: TestStorage, { policy, groups, outcomes = [1, 0], ...about }: TableOptions): Promise<void> {
  const ids = Array.from({ length: groups }, (_, g) => `${policy}/${about.version ?? 0}/${g}`)
  const rollouts = ids.flatMap((id, g) =>
    outcomes.map((outcome, i) => sampled({ policy, outcome, id, place: [g, i], size: outcomes.length, ...about })),
  )
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
  for (;;) {
    const credited = await storage.rows(
      `SELECT DISTINCT group_id FROM credits WHERE startsWith(group_id, '${policy}/${about.version ?? 0}/')`,
    )
    if (credited.length === groups) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

interface Sampled extends Omit<TableOptions, 'groups' | 'outcomes'> {
  readonly outcome: number
  readonly id: string
  readonly place: readonly [group: number, member: number]
  readonly size: number
}

function sampled({
  policy,
  outcome,
  id,
  place: [g, i],
  size,
  version = 0,
  mode = 'train',
  shift = 0,
  params = {},
  tokens = true,
}: Sampled): Rollout {
  const given = { attempt_id: '', task_id: '', group_size: size, group_id: id, mode, outcome, credit, covered_until: Date.now() }
  const one = rollout({ rollout_id: `${id}/${i}`, calls: 2, reward: outcome, ...given })
  const prompt = [3, 9 + (g % 10), 10 + i, 4].map((token) => token + shift)
  const turns = [
    { prompt, response: [10 + (g % 7), 11 + i, 1] },
    { prompt: [...prompt, 10 + (g % 7), 11 + i, 1, 5, 12 + (g % 3), 4], response: [13 + i, 1] },
  ]
  return {
    ...one,
    transitions: one.transitions.map((t, step) => ({
      ...{ ...t, policy, policy_version: version, return: outcome, weight: mode === 'val' ? 0 : 1, parent_step: tokens ? step - 1 : -1 },
      call: {
        ...{ ...t.call, params },
        ...(tokens ? { tokens: { ...turns[step]!, logprobs: turns[step]!.response.map(() => -1.5), source: 'attribute' as const } } : {}),
      },
    })),
  }
}
