// From turns to rows. A turn whose prompt begins with all tokens of a row of the same rollout and agent goes on in that row: a conversation
// of five turns is scored once, not five times. What stands between the turns was not written by the policy and is not scored. Where tokens
// differ, as after a change of the template or a new tokenisation, a new row begins. The same is learned from a row per turn, at a higher price.

import type { Objective } from './algorithm.ts'
import { rolloutKey } from './batch.ts'
import type { Sample, Turn, TurnSpan } from './row.ts'

export interface Refusal {
  readonly turn: Turn
  /** One word, counted in `training_steps.refused`. */
  readonly reason: string
  readonly detail: string
}

export interface MergeOptions {
  /** What a row holds. */
  readonly rows: 'merged' | 'per_turn'
  /** Longest row. */
  readonly max_tokens: number
}

export interface Merged {
  /** By rollout, attempt and the step of their first turn, in whatever order turns came. */
  readonly samples: readonly Sample[]
  readonly refused: readonly Refusal[]
}

/**
 * Turns that nothing is learned from (weight 0, or without what the objective learns from) are left out unsaid; in a later prompt they
 * are text like any other. So are refused ones.
 */
export function mergeTurns(
  turns: readonly Turn[],
  objective: Pick<Objective, 'learns_from' | 'weighs'>,
  { rows: kind, max_tokens }: MergeOptions,
): Merged {
  const refused: Refusal[] = []
  const open = new Map<string, OpenRow[]>()
  for (const turn of turns.toSorted(inOrder)) {
    if (turn.weight === 0 || turn[objective.learns_from] === null) continue
    const fault = unreadable(turn, max_tokens) ?? (objective.weighs ? misleading(turn) : null)
    if (fault) {
      refused.push({ turn, ...fault })
      continue
    }
    const scope = `${rolloutKey(turn)}\u0000${turn.agent}`
    const rows = open.get(scope) ?? []
    open.set(scope, rows)
    const temperature = objective.weighs ? temperatureOf(turn) : 1
    const free = objective.weighs ? isFree : () => true
    const fits = (row: OpenRow) => row.temperature === temperature && extendsRow(turn, row, max_tokens)
    const row = kind === 'merged' ? longest(rows.filter(fits)) : undefined
    if (row) append(row, turn, free)
    else rows.push(append({ tokens: [], scored: [], sampler: [], turns: [], temperature }, turn, free))
  }
  return { samples: [...open.values()].flat().map(closed), refused }
}

function inOrder(a: Turn, b: Turn): number {
  return compare(a.rollout_id, b.rollout_id) || compare(a.attempt_id, b.attempt_id) || a.step - b.step
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

type Fault = Pick<Refusal, 'reason' | 'detail'>

/** Why no objective can learn from it. */
function unreadable({ prompt_token_ids: prompt, response_token_ids: response, token_source }: Turn, maxTokens: number): Fault | null {
  const length = prompt.length + response.length
  if (token_source === 'none' || response.length === 0)
    return { reason: 'no_token_ids', detail: 'it carries no token ids, and text does not say which tokens were sampled' }
  if (prompt.length === 0) return { reason: 'no_prompt', detail: 'nothing stands before its first token, which then has no probability' }
  if (length > maxTokens) return { reason: 'too_long', detail: `it has ${length} tokens, more than the ${maxTokens} that fit` }
  return null
}

/** Why its importance weights would be wrong. They compare the sampler's distribution with the model's own at the same temperature. */
function misleading({ token_source, params, response_token_ids, response_logprobs }: Turn): Fault | null {
  const { temperature, top_p, top_k, min_p, frequency_penalty, presence_penalty, repetition_penalty } = params
  if (temperature === 0) return { reason: 'temperature_0', detail: 'it was not sampled: temperature was 0' }
  if (isNumber(top_p) && top_p < 1) return { reason: 'top_p', detail: `it was sampled from a part of the distribution: top_p ${top_p}` }
  if (isNumber(top_k) && top_k > 0) return { reason: 'top_k', detail: `it was sampled from a part of the distribution: top_k ${top_k}` }
  if (isNumber(min_p) && min_p > 0) return { reason: 'min_p', detail: `it was sampled from a part of the distribution: min_p ${min_p}` }
  if (
    [frequency_penalty, presence_penalty].some((p) => isNumber(p) && p !== 0) ||
    (isNumber(repetition_penalty) && repetition_penalty !== 1)
  )
    return { reason: 'penalty', detail: 'it was sampled from a distribution that a penalty had changed' }
  if (token_source === 'retokenized') return null
  if (response_logprobs.length !== response_token_ids.length)
    return { reason: 'no_logprobs', detail: `it has ${response_logprobs.length} log-probabilities for ${response_token_ids.length} tokens` }
  if (response_logprobs.every(Number.isNaN)) return { reason: 'forced', detail: 'the form that it had to have left the policy no choice' }
  if (token_source !== 'engine' && isNumber(temperature) && temperature !== 1)
    return { reason: 'raw_logprobs', detail: `its log-probabilities are those of temperature 1, but it was sampled at ${temperature}` }
  return null
}

const isNumber = (value: unknown): value is number => typeof value === 'number'

/** 1 where nobody said, as everywhere. */
const temperatureOf = ({ params }: Turn) => (isNumber(params.temperature) ? params.temperature : 1)

interface OpenRow {
  readonly tokens: number[]
  readonly scored: number[]
  readonly sampler: number[]
  readonly turns: TurnSpan[]
  readonly temperature: number
}

/** Compared from the end, where rows that do not fit differ soonest. */
function extendsRow({ prompt_token_ids: prompt, response_token_ids: response }: Turn, { tokens }: OpenRow, maxTokens: number): boolean {
  if (tokens.length > prompt.length || prompt.length + response.length > maxTokens) return false
  for (let i = tokens.length - 1; i >= 0; i--) if (tokens[i] !== prompt[i]) return false
  return true
}

function longest(rows: readonly OpenRow[]): OpenRow | undefined {
  return rows.toSorted((a, b) => b.tokens.length - a.tokens.length)[0]
}

/** Whether the policy was free to draw its token. What a form forced on it was drawn from another distribution, and is no choice to learn from. */
const isFree = ({ response_logprobs: logprobs }: Turn, i: number): boolean => !Number.isNaN(logprobs[i])

function append(row: OpenRow, turn: Turn, free: (turn: Turn, i: number) => boolean): OpenRow {
  const { prompt_token_ids: prompt, response_token_ids: response, response_logprobs } = turn
  for (let i = row.tokens.length; i < prompt.length; i++) {
    row.tokens.push(prompt[i]!)
    row.scored.push(0)
  }
  const from = row.sampler.length
  const known = turn.token_source !== 'retokenized' && response_logprobs.length === response.length
  for (let i = 0; i < response.length; i++) {
    row.tokens.push(response[i]!)
    row.scored.push(free(turn, i) ? 1 : 0)
    if (free(turn, i)) row.sampler.push(known ? response_logprobs[i]! : NaN)
  }
  row.turns.push({ turn, from, to: row.sampler.length })
  return row
}

const closed = ({ tokens, scored, sampler, turns, temperature }: OpenRow): Sample => ({
  tokens: Int32Array.from(tokens),
  scored: Uint8Array.from(scored),
  sampler: Float64Array.from(sampler),
  turns,
  temperature,
})
