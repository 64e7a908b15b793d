// Between two updates: would a person who looked at these figures go on? Silent ways for a run to be wrong, said in words.

import type { Objective, Prepared } from './algorithm.ts'
import type { Figures } from './figures.ts'

export interface Bounds {
  /** Nats per token. */
  readonly min_entropy: number
  readonly max_entropy: number
  readonly max_clip_fraction: number
  /** From the weights at the step's start, nats per token. */
  readonly max_kl: number
}

export const BOUNDS: Bounds = { min_entropy: 1e-4, max_entropy: 8, max_clip_fraction: 0.5, max_kl: 1 }

/** Of what a step is going to learn from, before its updates. Nothing: all is well. */
export function checkBatch(
  { turns, advantages }: Pick<Prepared, 'turns' | 'advantages'>,
  { learns_from, weighs }: Pick<Objective, 'learns_from' | 'weighs'>,
  isPublished: (version: number) => boolean,
): string[] {
  const breaches: string[] = []
  if (turns.length === 0) return ['no turn is left to learn from']
  if (!advantages.every(Number.isFinite)) breaches.push('an advantage is not a number')
  else if (advantages.every((advantage) => advantage === 0)) breaches.push('every advantage is 0: nothing tells good turns from bad ones')
  if (
    learns_from !== 'reward_outcome' &&
    constant(turns.map(({ turn }) => turn.return)) &&
    constant(turns.map(({ turn }) => turn.reward_outcome))
  )
    breaches.push(`every rollout has the same reward (${turns[0]!.turn.reward_outcome}): is it computed?`)
  // What is imitated may be anybody's.
  if (!weighs) return breaches
  const served = turns.map(({ turn }) => turn.policy_version)
  const unsaid = served.filter((version) => version === null).length
  if (unsaid > 0) breaches.push(`${unsaid} of ${turns.length} turns do not say which version of the policy answered`)
  const unknown = [...new Set(served)].filter((version) => version !== null && !isPublished(version))
  if (unknown.length > 0) breaches.push(`answered by versions that were never published: ${unknown.join(', ')}`)
  return breaches
}

/** Of what a step's updates did. */
export function checkFigures(figures: Figures, gradNorm: number, bounds: Bounds): string[] {
  const { entropy, clip_fraction, kl } = figures
  const { metrics, ...named } = figures
  const broken = Object.entries({ ...named, ...metrics, grad_norm: gradNorm }).filter(([, value]) => !Number.isFinite(value))
  const breaches = broken.map(([name, value]) => `${name} is ${value}`)
  if (entropy < bounds.min_entropy)
    breaches.push(`entropy is ${shown(entropy)}, below ${bounds.min_entropy}: the policy always answers the same`)
  if (entropy > bounds.max_entropy) breaches.push(`entropy is ${shown(entropy)}, above ${bounds.max_entropy}: the policy answers noise`)
  if (clip_fraction > bounds.max_clip_fraction)
    breaches.push(
      `the clip held ${shown(clip_fraction)} of all tokens, more than ${bounds.max_clip_fraction}: the learning rate is too high`,
    )
  if (Math.abs(kl) > bounds.max_kl)
    breaches.push(`the step went ${shown(kl)} nats per token, more than ${bounds.max_kl}: the learning rate is too high`)
  return breaches
}

const constant = (values: readonly (number | null)[]) => values.length > 1 && values.every((value) => value === values[0])
const shown = (value: number) => Number(value.toPrecision(3))
