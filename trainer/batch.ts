// A step's rows as columns, and its division into updates and their parts. Denominators are taken over an update, before it is divided,
// so that parts add up to the same numbers, and merged rows count as the single turns would.

import type { ScoreGradients } from '../policy/learning.ts'
import type { Batch, Loss, Mean, Prepared, ScoresLike } from './algorithm.ts'
import type { Floats, Sample, Turn, TurnSpan } from './row.ts'

export function batchOf(samples: readonly Sample[], old: ScoresLike | null, reference: Floats | null): Batch {
  const starts = startsOf(samples)
  const turns = samples.flatMap((sample, i) => sample.turns.map((span) => moved(span, starts[i]!)))
  const sampler = new Float64Array(starts.at(-1)!)
  for (const [i, sample] of samples.entries()) sampler.set(sample.sampler, starts[i])
  return { samples, turns, sampler, old, reference }
}

/** Completes `prepare`: with what each token counts. */
export function preparedOf(batch: Batch, advantages: Floats, mean: Mean, returns: Floats | null = null): Prepared {
  return { ...batch, advantages, returns, mean, scale: scaleOf(batch, mean) }
}

/** One attempt of a rollout is what counts once. */
export const rolloutKey = ({ rollout_id, attempt_id }: Turn) => `${rollout_id}\u0000${attempt_id}`

function scaleOf({ turns, sampler }: Batch, { over, length }: Mean): Float64Array {
  const rollouts = new Map<string, number>()
  for (const { turn, from, to } of turns) rollouts.set(rolloutKey(turn), (rollouts.get(rolloutKey(turn)) ?? 0) + to - from)
  const scale = new Float64Array(sampler.length)
  for (const { turn, from, to } of turns) {
    const divisor = {
      rollout: rollouts.size * rollouts.get(rolloutKey(turn))!,
      token: sampler.length,
      turn: turns.length * (to - from),
      turn_sum: turns.length,
      constant: turns.length * length,
    }
    scale.fill(1 / divisor[over], from, to)
  }
  return scale
}

/**
 * Divides a step into updates of about as many rollouts each, drawn at random; one update is the step as it is.
 * @param random from 0 up to 1
 */
export function updatesOf(step: Prepared, count: number, random: () => number): Prepared[] {
  if (count === 1) return [step]
  const rows = new Map<string, number[]>()
  for (const [row, { turns }] of step.samples.entries()) {
    const key = rolloutKey(turns[0]!.turn)
    rows.set(key, [...(rows.get(key) ?? []), row])
  }
  const rollouts = shuffled([...rows.values()], random)
  const updates = Math.min(count, rollouts.length)
  return Array.from({ length: updates }, (_, i) => {
    const part = rollouts.slice(Math.floor((i * rollouts.length) / updates), Math.floor(((i + 1) * rollouts.length) / updates))
    const update = selectPrepared(step, part.flat())
    return { ...update, scale: scaleOf(update, step.mean) }
  })
}

/** Consecutive rows of at most so many tokens together; a longer row is alone. */
export function partsOf(update: Prepared, tokens: number): Prepared[] {
  const parts: number[][] = []
  let room = 0
  for (const [row, sample] of update.samples.entries()) {
    if (parts.length === 0 || sample.tokens.length > room) {
      parts.push([])
      room = tokens
    }
    parts.at(-1)!.push(row)
    room -= sample.tokens.length
  }
  return parts.map((rows) => selectPrepared(update, rows))
}

/** These rows alone, in this order. */
export function selectRows(batch: Batch, rows: readonly number[]): Batch {
  const cut = cutter(batch.samples, rows)
  const old = batch.old && {
    logprobs: cut(batch.old.logprobs),
    entropies: cut(batch.old.entropies),
    values: batch.old.values && cut(batch.old.values),
  }
  return batchOf(
    rows.map((row) => batch.samples[row]!),
    old,
    batch.reference && cut(batch.reference),
  )
}

function selectPrepared(step: Prepared, rows: readonly number[]): Prepared {
  const cut = cutter(step.samples, rows)
  return {
    ...selectRows(step, rows),
    advantages: cut(step.advantages),
    returns: step.returns && cut(step.returns),
    mean: step.mean,
    scale: cut(step.scale),
  }
}

export function toScoreGradients({ logprobs, entropies, values }: Loss): ScoreGradients {
  return {
    logprobs: Float32Array.from(logprobs),
    ...(entropies && { entropies: Float32Array.from(entropies) }),
    ...(values && { values: Float32Array.from(values) }),
  }
}

/** Takes the tokens of some rows out of [N]. */
function cutter(samples: readonly Sample[], rows: readonly number[]): (values: Floats) => Float64Array {
  const starts = startsOf(samples)
  const length = rows.reduce((sum, row) => sum + samples[row]!.sampler.length, 0)
  return (values) => {
    const cut = new Float64Array(length)
    let at = 0
    for (const row of rows) {
      cut.set(values.subarray(starts[row], starts[row + 1]), at)
      at += samples[row]!.sampler.length
    }
    return cut
  }
}

/** Where each row begins in [N], and N. */
function startsOf(samples: readonly Sample[]): number[] {
  const starts = [0]
  for (const { sampler } of samples) starts.push(starts.at(-1)! + sampler.length)
  return starts
}

const moved = ({ turn, from, to }: TurnSpan, by: number): TurnSpan => ({ turn, from: from + by, to: to + by })

/** Fisher and Yates. */
function shuffled<T>(items: T[], random: () => number): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[items[i], items[j]] = [items[j]!, items[i]!]
  }
  return items
}
