// REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv 2402.14740, eq. 5): a rollout's return minus the mean return of the others of its group,
// times the gradient of its log-probability. No clip, no standard deviation, no value head. The KL from the reference is taken from the return
// (its eq. 2), by k1 and per turn, before the others' mean is.
//
// Returns come from the credit step, the baseline from here, whatever baseline the credit step used. The weight of a token is truncated
// π_current/π_sampler, not differentiated, so that a second update on the same rows is corrected as well as an old sampler is.

import { algorithm } from '../algorithm.ts'
import { preparedOf } from '../batch.ts'
import { aboveGroup } from '../group.ts'
import { importanceWeight } from '../losses/importance.ts'
import { ratioOf } from '../losses/clip.ts'
import { k1, k3 } from '../losses/kl.ts'
import { count, countMore, startTally } from '../losses/tally.ts'

export default algorithm({
  type: 'rloo',
  summary: 'REINFORCE with the other rollouts of the group as baseline: the simplest, and unbiased; for one update per step.',
  options: {
    weight_cap: { doc: 'Importance weights of trainer against sampler are cut here.', default: 2, min: 1 },
    loss_mean: {
      doc: 'What the loss is a mean over: rollouts, tokens, turns, or sums of turns (the paper).',
      default: 'rollout',
      values: ['rollout', 'token', 'turn', 'turn_sum'],
    },
    kl_coefficient: {
      doc: 'How much of the KL from the reference is taken from the return (the paper: 0.05); 0 for off.',
      default: 0,
      min: 0,
    },
  },
  create({ weight_cap, loss_mean, kl_coefficient }) {
    return {
      learns_from: 'advantage',
      weighs: true,
      old: kl_coefficient > 0,
      reference: kl_coefficient > 0,
      value_head: false,

      prepare(batch) {
        const { turns, old, reference } = batch
        const returns = turns.map(({ turn, from, to }) => {
          let kl = 0
          if (kl_coefficient > 0) for (let t = from; t < to; t++) kl += k1(old!.logprobs[t]!, reference![t]!)
          return turn.return! - kl_coefficient * kl
        })
        const above = aboveGroup(turns, returns, true)
        const advantages = new Float64Array(batch.sampler.length)
        for (const [i, { from, to }] of turns.entries()) advantages.fill(above[i]!, from, to)
        return preparedOf(batch, advantages, { over: loss_mean, length: 1 })
      },

      loss({ advantages, sampler, old, reference, scale }, { logprobs, entropies }) {
        const slopes = new Float64Array(logprobs.length)
        const tally = startTally()
        for (let t = 0; t < logprobs.length; t++) {
          const importance = importanceWeight(logprobs[t]!, sampler[t]!, weight_cap)
          const slope = -importance.weight * advantages[t]!
          tally.loss += scale[t]! * slope * logprobs[t]!
          slopes[t] = scale[t]! * slope
          const before = old ? old.logprobs[t]! : logprobs[t]!
          count(tally, {
            old: before,
            logprob: logprobs[t]!,
            entropy: entropies[t]!,
            policy: { ratio: ratioOf(logprobs[t]!, before), held: '' },
            importance,
          })
          if (reference) countMore(tally, 'reference_kl', k3(logprobs[t]!, reference[t]!).value)
        }
        return { loss: tally.loss, logprobs: slopes, entropies: null, values: null, tally }
      },
    }
  },
})
