// gen_ai.evaluation.result, as a log record or a span event: one score by somebody who judged.

import type { RewardReading } from './dialect.ts'
import { score } from './score.ts'
import type { Attributes } from './span.ts'
import { textOf } from './values.ts'

export const EVALUATION = 'gen_ai.evaluation.result'

/** @param target where the event stands; a response id in it says more precisely which call is meant */
export function readEvaluation(attributes: Attributes, target: NonNullable<RewardReading['target']>): RewardReading {
  const name = textOf(attributes['gen_ai.evaluation.name']) ?? 'score'
  const failure = textOf(attributes['error.type'])
  return {
    dimensions:
      failure === undefined ? [score(name, attributes['gen_ai.evaluation.score.value'], attributes['gen_ai.evaluation.score.label'])] : [],
    problem: failure && `evaluation "${name}" failed: ${failure}`,
    source: 'judge',
    target: { ...target, response_id: textOf(attributes['gen_ai.response.id']) },
  }
}
