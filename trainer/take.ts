// From ClickHouse to rows: which groups a step takes, and which of their turns are refused.

import { readModelConfig } from '../policy/model_config.ts'
import type { PolicyVersion } from '../storage/policies.ts'
import type { ReadyGroup, Training, TrainingTransition } from '../storage/training.ts'
import type { Objective } from './algorithm.ts'
import { mergeTurns, type MergeOptions, type Refusal } from './merge.ts'
import type { TrainerOptions } from './options.ts'
import type { Retokenize } from './retokenize.ts'
import type { Sample, Turn } from './row.ts'

/** Below this an advantage is rounding, not signal. */
const NO_SIGNAL = 1e-9

/** What is there to learn from. */
export interface Supply {
  /** Oldest first. */
  readonly ready: readonly ReadyGroup[]
  /** Ids of those with nothing to teach: dynamic sampling passes them over. */
  readonly without_signal: readonly string[]
}

export interface Taken {
  readonly groups: readonly string[]
  /** As they were read; those without token ids as they were retokenized. */
  readonly turns: readonly TrainingTransition[]
  readonly samples: readonly Sample[]
  readonly refused: readonly Refusal[]
}

export interface TakeOptions extends MergeOptions {
  readonly objective: Objective
  /** Token ids run from 0 to below this. */
  readonly vocabulary: number
  /** Gives ids to turns that carry none; null: they are refused. */
  readonly retokenize: Retokenize | null
}

export function takeOptionsOf(
  { base, rows, max_tokens }: TrainerOptions,
  { objective, retokenize }: Pick<TakeOptions, 'objective' | 'retokenize'>,
): TakeOptions {
  const { vocabulary, context } = readModelConfig(base)
  return { objective, retokenize, vocabulary, rows, max_tokens: Math.min(max_tokens ?? context, context) }
}

/** @param minimum oldest version that rows may come from */
export async function supplyOf(training: Training, objective: Objective, minimum: number): Promise<Supply> {
  const groups = await training.ready(minimum)
  const teaches = ({ signal }: ReadyGroup) => objective.learns_from !== 'advantage' || signal >= NO_SIGNAL
  return { ready: groups.filter(teaches), without_signal: groups.filter((group) => !teaches(group)).map(({ group_id }) => group_id) }
}

/** Reads groups for a step. Nothing is marked as used yet. */
export async function takeGroups(training: Training, step: number, groups: readonly string[], options: TakeOptions): Promise<Taken> {
  const { objective, vocabulary, retokenize } = options
  const stored = await training.transitions(groups, step)
  const turns = retokenize ? stored.map((turn) => (turn.token_source === 'none' ? retokenize(turn) : turn)) : stored
  const foreign = new Set(turns.filter((turn) => !isWithin(vocabulary, turn)))
  const strangers = [...foreign].map((turn): Refusal => {
    return { turn, reason: 'other_tokenizer', detail: `it has token ids beyond the ${vocabulary} of this policy's vocabulary` }
  })
  const own = turns.filter((turn) => !foreign.has(turn))
  const { samples, refused } = mergeTurns(own, objective, options)
  return { groups, turns, samples, refused: [...strangers, ...refused] }
}

const isWithin = (vocabulary: number, { prompt_token_ids, response_token_ids }: Turn) =>
  [prompt_token_ids, response_token_ids].every((ids) => Array.from(ids).every((id) => id < vocabulary))

/** The oldest version that rows may come from. */
export function oldestAllowed(versions: readonly PolicyVersion[], max_staleness: number): number {
  const live = versions.find(({ status }) => status === 'live')
  // Whatever was published since, the live one is who answers.
  return Math.min(versions.at(-1 - max_staleness)?.version ?? 0, live?.version ?? Infinity)
}

/** How many turns were refused for each reason. */
export function countByReason(refused: readonly Refusal[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { reason } of refused) counts[reason] = (counts[reason] ?? 0) + 1
  return counts
}
