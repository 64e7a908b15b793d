// gen_ai.evaluation.result, as a log record or a span event: one score by somebody who judged.

import type { RewardReading, Target } from './dialect.ts'
import { score } from './score.ts'
import type { Attributes, Value } from './span.ts'
import { textOf } from './values.ts'

export const EVALUATION = 'gen_ai.evaluation.result'

/** What the `scores` receiver writes beside OpenTelemetry's keys; anybody else may as well. */
export const SCORE = {
  id: 'leyden.score.id',
  source: 'leyden.score.source',
  annotator: 'leyden.score.annotator',
  /** True: this value is verified and stands, whatever others say. */
  override: 'leyden.score.override',
  rollout_id: 'leyden.score.rollout_id',
  attempt_id: 'leyden.score.attempt_id',
  /** Of a span whose trace is not known. */
  span_id: 'leyden.score.span_id',
  /** True: the record's trace was made up for it, since the score names none. */
  detached: 'leyden.score.detached',
} as const

const SOURCES: readonly string[] = ['environment', 'human', 'judge'] satisfies RewardReading['source'][]

/** @param target where the event stands; a response id in it says more precisely which call is meant */
export function readEvaluation(attributes: Attributes, target: NonNullable<RewardReading['target']>): RewardReading {
  const name = textOf(attributes['gen_ai.evaluation.name']) ?? 'score'
  const failure = textOf(attributes['error.type'])
  const source = textOf(attributes[SCORE.source])
  return {
    dimensions:
      failure === undefined ? [score(name, attributes['gen_ai.evaluation.score.value'], attributes['gen_ai.evaluation.score.label'])] : [],
    problem: failure && `evaluation "${name}" failed: ${failure}`,
    source: SOURCES.includes(source ?? '') ? (source as RewardReading['source']) : 'judge',
    annotator: textOf(attributes[SCORE.annotator]),
    id: textOf(attributes[SCORE.id]),
    override: attributes[SCORE.override] === true,
    target: {
      ...(attributes[SCORE.detached] === true ? {} : target),
      ...said('response_id', attributes['gen_ai.response.id']),
      ...said('rollout_id', attributes[SCORE.rollout_id]),
      ...said('span_id', attributes[SCORE.span_id]),
      ...said('session', attributes['session.id']),
    },
  }
}

function said(key: keyof Target, value: Value | undefined): Target {
  const text = textOf(value)
  return text === undefined ? {} : { [key]: text }
}
