// Leyden's tables (schema/), as a list of migrations. A migration that was ever released is never edited:
// the next one changes what it made. Several processes may run the same one at the same time, so
// every statement must be harmless when it is run again: IF NOT EXISTS. (While a view is replaced there is a moment without it, in which another
// process cannot make those that are made of it.)

import { credits, leases, rewards, rewardTargets, rolloutRewards } from './schema/credit.ts'
import { policies, policyProgress, policyVersions, trainingRows, trainingSteps } from './schema/policies.ts'
import { outlines, rejects, rollouts, transitionRows, transitions, transitionsFull } from './schema/rollouts.ts'
import { rolloutKeys, rolloutMembers, spans, spansUnique } from './schema/spans.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly statements: readonly string[]
}

export interface SchemaOptions {
  /** How long raw spans are kept, in milliseconds; 0: for ever. */
  readonly ttl: number
}

export const migrationsTable = `
CREATE TABLE IF NOT EXISTS migrations (
  version UInt32 DEFAULT 0,
  name String DEFAULT '',
  applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = ReplacingMergeTree ORDER BY version`

export const migrations = ({ ttl }: SchemaOptions): readonly Migration[] => [
  {
    version: 1,
    name: 'spans, rollouts, transitions, rewards, credits, policies, training',
    statements: [
      spans(ttl),
      spansUnique,
      rolloutMembers,
      rolloutKeys,
      rollouts,
      outlines,
      transitionRows,
      transitions,
      transitionsFull,
      rewards,
      rewardTargets,
      rolloutRewards,
      credits,
      policyProgress,
      rejects,
      policies,
      policyVersions,
      trainingRows,
      trainingSteps,
      leases,
    ],
  },
]
