// Which of a rollout's rewards is its outcome, and which belong to single calls.
//
// 1. Of each reward the primary dimension counts: the one its carrier calls primary; where no carrier does, the one
//    named in the configuration, else the only one there is. The others are parts. Several without a primary one
//    make no outcome: that is reported, not guessed.
// 2. A reward is of the whole rollout when it names the rollout, its trace or session, or a span that has every
//    policy call in it (a root, or the only call); and, naming nothing, when it comes after every policy call ended.
// 3. The last one of the whole is the outcome, and null when its value was refused (NaN, text). Last is by sequence
//    id where all carry one, else by time.
// 4. Any other reward is a step reward: of the call it names, of the last call in the span it names, or, naming
//    nothing, of the call that led to it (causality.ts). Several on one call add up.
// 5. Said again, a reward replaces what was said before: under the same id, or of the same named target under the same
//    names and by the same kind of source. What names nothing is never said again: each stands for its own moment.
// 6. A verified reward of the whole (`override`) is the outcome, whatever came after it; so is a person's, where the
//    configuration says so. With weights, the outcome is the weighted sum of the latest value of each name.

import type { Moment, Problem } from './rollout.ts'
import { standing, type GivenReward, type Standing } from './standing.ts'
import type { SpanTree } from './tree.ts'

export interface StepReward {
  readonly intermediate: number | null
  readonly parts: Readonly<Record<string, number>>
}

export interface Outcome {
  readonly outcome: number | null
  /** Other dimensions given to the whole rollout. */
  readonly parts: Readonly<Record<string, number>>
  /** By what names the call. */
  readonly steps: ReadonlyMap<string, StepReward>
  readonly problems: readonly Problem[]
}

export interface RewardOptions {
  /** Name of the dimension that counts where no carrier says so. */
  readonly primary: string | null
  /** By name; where there are any, the outcome is the weighted sum. */
  readonly weights: Readonly<Record<string, number>>
  /** Whether what a person says of the whole stands, whatever others say. */
  readonly human: 'as_any' | 'override'
}

export const AS_GIVEN: RewardOptions = { primary: null, weights: {}, human: 'as_any' }

/**
 * @param calls those that a policy answered, or all of the rollout's: judged ones never count
 */
export function outcome(rewards: readonly GivenReward[], calls: readonly Moment[], tree: SpanTree, options = AS_GIVEN): Outcome {
  if (rewards.length === 0) return { outcome: null, parts: {}, steps: new Map(), problems: [] }
  const problems: Problem[] = []
  const known = rewards.filter((reward) => isKnown(reward, problems))
  const found = decide(known, standing(rewards, calls, tree), options)
  return { ...found, problems: [...problems, ...found.problems] }
}

/** Which of the rewards is the outcome, and what of the others belongs to single calls. */
export function decide<R extends GivenReward>(
  rewards: readonly R[],
  { at, isWhole, owners: ownersOf }: Standing<R>,
  options: RewardOptions,
): Outcome {
  const problems: Problem[] = []
  const known = latestVersions(inOrder(rewards, at))
  const whole = known.filter(isWhole)
  const dimension = dimensionOf(known, whole, options.primary ?? undefined)
  const final = finalOf(whole, dimension, options)
  const total = final?.stands ? undefined : weightedSum(whole, options.weights)
  if (!final && total === undefined && whole.length > 0) {
    const names = [...namesOf(whole)].join(', ')
    problems.push({ reason: 'reward_ambiguous', span_id: whole[0]!.span_id, detail: `nothing says that ${names} is the primary reward` })
  }

  const stepped = known.filter((reward) => (isWhole(reward) ? final && reward !== final.reward && reward.target === undefined : true))
  const owners = stepped.length > 0 ? ownersOf(stepped) : NONE
  const stepDimension = final ? dimension : dimensionOf(known, stepped, options.primary ?? undefined)
  for (const reward of stepped) {
    if (owners.has(reward)) continue
    problems.push({ reason: 'reward_without_call', span_id: reward.span_id, detail: 'no policy call ended before it, and it names none' })
  }
  const parts: Record<string, number> = {}
  for (const reward of whole) if (!owners.has(reward)) addParts(parts, reward, total === undefined ? dimension(reward) : undefined)
  return {
    outcome: total === undefined ? (final?.value ?? null) : total,
    parts,
    steps: addUp(stepped, owners, stepDimension),
    problems,
  }
}

const NONE: ReadonlyMap<GivenReward, string> = new Map()

/** A reward may name a span or response that is not, or not yet, in the rollout. */
function isKnown({ target, target_node, span_id }: GivenReward, problems: Problem[]): boolean {
  const named = target?.response_id ?? target?.span_id
  if (!named || target_node !== undefined) return true
  problems.push({ reason: 'reward_target_unknown', span_id, detail: `it is about ${named}, which is not in this rollout` })
  return false
}

/** By time, as they almost always come. */
function inOrder<R extends GivenReward>(rewards: readonly R[], at: (reward: R) => number): readonly R[] {
  for (let i = 1; i < rewards.length; i++) {
    if (at(rewards[i - 1]!) > at(rewards[i]!)) return [...rewards].sort((a, b) => at(a) - at(b))
  }
  return rewards
}

/** Each in its latest version, in order. */
function latestVersions<R extends GivenReward>(rewards: readonly R[]): readonly R[] {
  if (rewards.length <= 1) return rewards
  const latest: R[] = []
  const later = new Set<string>()
  for (let i = rewards.length - 1; i >= 0; i--) {
    const keys = versionKeys(rewards[i]!)
    if (!keys.some((key) => later.has(key))) latest.push(rewards[i]!)
    for (const key of keys) later.add(key)
  }
  return latest.reverse()
}

function versionKeys({ id, target, target_node, source, dimensions }: GivenReward): string[] {
  const keys = id === undefined ? [] : [`id ${id}`]
  if (target) {
    const names = dimensions.length === 1 ? dimensions[0]!.name : JSON.stringify(dimensions.map(({ name }) => name))
    keys.push(`${dimensions.length} ${target_node ?? ''} ${source} ${names}`)
  }
  return keys
}

interface Final {
  readonly reward: GivenReward
  readonly value: number | null
  /** It is verified: nothing is weighed against it. */
  readonly stands: boolean
}

function finalOf(whole: readonly GivenReward[], dimension: DimensionOf, { human }: RewardOptions): Final | undefined {
  const verified = whole.findLast(
    (reward) => (reward.override || (human === 'override' && reward.source === 'human')) && mainValue(reward, dimension) !== null,
  )
  if (verified) return { reward: verified, value: mainValue(verified, dimension), stands: true }
  const reward = whole.findLast((one) => valueOf(one, dimension(one)) !== undefined)
  return reward && { reward, value: valueOf(reward, dimension(reward)) ?? null, stands: false }
}

/** Of the dimension that counts, else of the only one. */
function mainValue(reward: GivenReward, dimension: DimensionOf): number | null {
  const only = reward.dimensions.length === 1 ? reward.dimensions[0]!.value : undefined
  return valueOf(reward, dimension(reward)) ?? only ?? null
}

/** Undefined without weights. Names that nobody gave a value are left out; null where that is all of them. */
function weightedSum(whole: readonly GivenReward[], weights: RewardOptions['weights']): number | null | undefined {
  const named = Object.keys(weights)
  if (named.length === 0) return undefined
  const shares = named.flatMap((name) => {
    const reward = whole.findLast((one) => typeof valueOf(one, name) === 'number')
    return reward ? [weights[name]! * valueOf(reward, name)!] : []
  })
  return shares.length === 0 ? null : shares.reduce((sum, share) => sum + share, 0)
}

type DimensionOf = (reward: GivenReward) => string | undefined

/** @param scope the rewards among which one dimension may be the only one */
function dimensionOf(all: readonly GivenReward[], scope: readonly GivenReward[], configured: string | undefined): DimensionOf {
  if (all.some(({ primary }) => primary !== undefined)) return ({ primary }) => primary
  const name = configured ?? onlyName(scope)
  return () => name
}

/** Undefined where there are several. */
function onlyName(rewards: readonly GivenReward[]): string | undefined {
  let only: string | undefined
  for (const { dimensions } of rewards) {
    for (const { name } of dimensions) {
      if (name !== (only ??= name)) return undefined
    }
  }
  return only
}

const namesOf = (rewards: readonly GivenReward[]): Set<string> =>
  new Set(rewards.flatMap(({ dimensions }) => dimensions.map(({ name }) => name)))

function valueOf({ dimensions }: GivenReward, named: string | undefined): number | null | undefined {
  for (const { name, value } of dimensions) if (name === named) return value
  return undefined
}

function addParts(parts: Record<string, number>, { dimensions }: GivenReward, primary: string | undefined): void {
  for (const { name, value } of dimensions) if (name !== primary && value !== null) parts[name] = value
}

function addUp(rewards: readonly GivenReward[], owners: ReadonlyMap<GivenReward, string>, dimension: DimensionOf): Map<string, StepReward> {
  const steps = new Map<string, StepReward>()
  for (const reward of rewards) {
    const owner = owners.get(reward)
    if (owner === undefined) continue
    const before = steps.get(owner)
    const parts = { ...before?.parts }
    addParts(parts, reward, dimension(reward))
    const value = valueOf(reward, dimension(reward)) ?? null
    const intermediate = before?.intermediate ?? null
    steps.set(owner, { intermediate: value === null ? intermediate : (intermediate ?? 0) + value, parts })
  }
  return steps
}
