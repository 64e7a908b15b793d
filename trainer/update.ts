// One step of training: rows in, weights changed. Nothing here knows where rows come from or where versions go.
//
// Three policies: the sampler, whose log-probabilities came with the rows; the old one, which is the weights at the step's start; and
// the current one, which changes from update to update. With a single update the old and the current are the same.

import type { Learner } from '../policy/learning.ts'
import type { TrainingStep } from '../storage/training.ts'
import type { Objective, Prepared, Tally } from './algorithm.ts'
import { batchOf, partsOf, toScoreGradients, updatesOf } from './batch.ts'
import { figuresOf, type Figures } from './figures.ts'
import type { Sample } from './row.ts'

/** Everything that a step needs of the weights as they are before it. `updates`: how many there will be. */
export async function prepareStep(learner: Learner, objective: Objective, samples: readonly Sample[], updates: number): Promise<Prepared> {
  const old = objective.old || updates > 1 ? await learner.score(samples) : null
  const reference = objective.reference ? (await learner.score(samples, 'reference')).logprobs : null
  return objective.prepare(batchOf(samples, old, reference))
}

export interface UpdateOptions {
  readonly epochs: number
  /** Updates per epoch. */
  readonly minibatches: number
  readonly tokens_per_pass: number
  readonly learning_rate: number
  /** From 0 up to 1, the same each time the step is done. */
  readonly random: () => number
}

export type Updated = Figures & Pick<TrainingStep, 'grad_norm'>

/** Rejects, with the weights as they were before the update concerned, when a number is not finite. */
export async function updateLearner(
  learner: Learner,
  objective: Objective,
  step: Prepared,
  { epochs, minibatches, tokens_per_pass, learning_rate, random }: UpdateOptions,
): Promise<Updated> {
  const tallies: Tally[] = []
  let [updates, grad_norm] = [0, 0]
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (const update of updatesOf(step, minibatches, random)) {
      for (const part of partsOf(update, tokens_per_pass)) {
        await learner.accumulate(part.samples, (scores) => {
          const loss = objective.loss(part, scores)
          tallies.push(loss.tally)
          return toScoreGradients(loss)
        })
      }
      grad_norm = Math.max(grad_norm, (await learner.step(learning_rate)).grad_norm)
      updates++
    }
  }
  return { ...figuresOf(tallies, updates), grad_norm }
}
