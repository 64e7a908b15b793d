// Versions out: written, made known, pruned; and what evaluations say of them.

import type { Learner } from '../policy/learning.ts'
import type { Policies, PolicyVersion } from '../storage/policies.ts'
import type { Evaluation, TrainingStep } from '../storage/training.ts'
import type { TrainerOptions } from './options.ts'
import type { Ask } from './patience.ts'
import { newestVersion, prunable, type VersionFolders } from './versions.ts'

/** An evaluation with fewer rollouts than this share of the fullest one is still under way. */
const WHOLE = 0.9

/** Makes policy and base known, and says from which version to go on. Rejects where it was trained from another base, or elsewhere. */
export async function begin(policies: Policies, { policy, base }: TrainerOptions, folder: string): Promise<PolicyVersion[]> {
  const known = (await policies.list()).find((other) => other.policy === policy)
  if (known && known.base !== base) {
    throw new Error(`policy ${policy} was trained from ${known.base}, not from ${base}: give the new one another name`)
  }
  if (known && known.path !== folder)
    throw new Error(`policy ${policy} has its versions in ${known.path}, not in ${folder}: set policies_dir`)
  await policies.register({ policy, base, path: folder })
  const versions = await policies.versions(policy)
  if (versions.length > 0) return versions
  await policies.publish({ policy, version: 0, base, path: base, parent: null, status: 'live', trained_on: {}, metrics: {} })
  return policies.versions(policy)
}

/** Files first, then the step's figures, then the row that makes the version known. */
export async function publish(
  { policies, folders, ask, record }: { policies: Policies; folders: VersionFolders; ask: Ask; record: () => Promise<void> },
  learner: Learner,
  version: Omit<PolicyVersion, 'created_at' | 'path'>,
): Promise<void> {
  const path = await folders.write(version.version, learner)
  await ask(record)
  await ask(() => policies.publish({ ...version, path }))
}

export async function prune(
  policies: Policies,
  folders: VersionFolders,
  { policy, keep, eval_every }: Pick<TrainerOptions, 'policy' | 'keep' | 'eval_every'>,
  evaluations: readonly Evaluation[],
): Promise<void> {
  const versions = await policies.versions(policy)
  const evaluated = evaluations.at(-1)?.version ?? Infinity
  const waiting = versions.map(({ version }) => version).filter((version) => version > evaluated && version % eval_every === 0)
  const kept = new Set([...waiting.slice(-keep), bestOf(evaluations)?.version])
  for (const { version, path } of prunable(versions, keep, kept)) {
    await policies.pruned(policy, version)
    await folders.remove(path)
  }
}

const whole = (evaluations: readonly Evaluation[]): Evaluation[] => {
  const fullest = Math.max(...evaluations.map(({ rollouts }) => rollouts))
  return evaluations.filter(({ rollouts }) => rollouts >= WHOLE * fullest)
}

/** Of versions that do equally well the older one, which moved less. */
function bestOf(evaluations: readonly Evaluation[]): Evaluation | undefined {
  return whole(evaluations).reduce<Evaluation | undefined>((best, one) => (best && best.reward >= one.reward ? best : one), undefined)
}

/** Why the run has done what it was for, if so. */
export function enough(evaluations: readonly Evaluation[], { early_stop: { reward, patience } }: TrainerOptions): string | null {
  const done = whole(evaluations)
  const best = bestOf(evaluations)
  if (!best) return null
  if (reward !== null && best.reward >= reward) return `version ${best.version} reached ${best.reward.toFixed(3)} in evaluation`
  const since = done.filter(({ version }) => version > best.version).length
  if (patience !== null && since >= patience)
    return `${since} evaluations since version ${best.version} were no better than its ${best.reward.toFixed(3)}`
  return null
}

export const metricsOf = ({
  reward,
  success,
  loss,
  kl,
  entropy,
  clip_fraction,
  grad_norm,
  metrics,
}: TrainingStep): Record<string, number> => ({
  ...{ reward, success, loss, kl, entropy, clip_fraction, grad_norm },
  ...metrics,
})

/** Rolled back: somebody made an older version live, and ours is retired. */
export const rolledBack = (versions: readonly PolicyVersion[], parent: PolicyVersion): PolicyVersion | null => {
  const newest = newestVersion(versions)
  return newest.version < parent.version ? newest : null
}
