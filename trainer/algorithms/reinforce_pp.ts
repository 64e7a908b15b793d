// REINFORCE++ (Hu et al. 2025, arXiv 2501.03262): no group, no value head. A token's return is what comes after it (its turn's return, and at each
// token −β times the KL from the reference, by k1), whitened over all tokens of the step; then PPO's clipped surrogate. With `baseline: group`
// (the paper's REINFORCE++-baseline) the turn's advantage stands in place of its return.
//
// Where the paper says sequence, a turn is meant: what later turns earned is in the turn's return already, by the credit method.

import { algorithm } from '../algorithm.ts'
import { preparedOf } from '../batch.ts'
import { clippedLoss } from '../losses/clip.ts'
import { importanceWeight } from '../losses/importance.ts'
import { k1, k3 } from '../losses/kl.ts'
import { count, countMore, startTally } from '../losses/tally.ts'
import { whiten } from '../losses/whiten.ts'

export default algorithm({
  type: 'reinforce_pp',
  summary: 'Compares every token with the whole step: for tasks that are tried only once.',
  options: {
    baseline: {
      doc: "What is whitened: returns, or, where tasks are tried in groups, the group's advantages.",
      default: 'none',
      values: ['none', 'group'],
    },
    gamma: { doc: "Discount per token, counted back from the turn's last one.", default: 1, min: 0, max: 1 },
    clip_low: { doc: 'How far the ratio of a token may fall below 1 before it is held.', default: 0.2, min: 0, max: 1 },
    clip_high: { doc: 'How far it may rise above 1.', default: 0.2, min: 0 },
    dual_clip: { doc: 'Most that a token of a bad answer counts, as a ratio; 0 for no limit.', default: 3, min: 0 },
    weight_cap: { doc: 'Importance weights of trainer against sampler are cut here.', default: 2, min: 1 },
    loss_mean: {
      doc: 'What the loss is a mean over: rollouts, tokens (the paper), or turns.',
      default: 'rollout',
      values: ['rollout', 'token', 'turn'],
    },
    kl_coefficient: { doc: 'How much of the KL from the reference is taken from the reward of each token; 0 for off.', default: 0, min: 0 },
    entropy_coefficient: { doc: 'Weight of the entropy, which the loss rewards.', default: 0, min: 0 },
  },
  create(options) {
    const { baseline, gamma, weight_cap, loss_mean, kl_coefficient, entropy_coefficient } = options
    return {
      learns_from: baseline === 'group' ? 'advantage' : 'return',
      weighs: true,
      old: kl_coefficient > 0,
      reference: kl_coefficient > 0,
      value_head: false,

      prepare(batch) {
        const { turns, old, reference } = batch
        const returns = new Float64Array(batch.sampler.length)
        for (const { turn, from, to } of turns) {
          let following = 0
          for (let t = to - 1; t >= from; t--) {
            const earned = t < to - 1 ? 0 : baseline === 'group' ? turn.advantage! : turn.return!
            const kl = kl_coefficient > 0 ? k1(old!.logprobs[t]!, reference![t]!) : 0
            following = returns[t] = earned - kl_coefficient * kl + gamma * following
          }
        }
        return preparedOf(batch, whiten(returns), { over: loss_mean, length: 1 })
      },

      loss({ advantages, sampler, reference, scale, ...part }, { logprobs, entropies }) {
        const old = part.old?.logprobs ?? logprobs
        const slopes = new Float64Array(logprobs.length)
        const tally = startTally()
        for (let t = 0; t < logprobs.length; t++) {
          const policy = clippedLoss(logprobs[t]!, old[t]!, advantages[t]!, options)
          const importance = importanceWeight(old[t]!, sampler[t]!, weight_cap)
          tally.loss += scale[t]! * (importance.weight * policy.loss - entropy_coefficient * entropies[t]!)
          slopes[t] = scale[t]! * importance.weight * policy.slope
          count(tally, { old: old[t]!, logprob: logprobs[t]!, entropy: entropies[t]!, policy, importance })
          if (reference) countMore(tally, 'reference_kl', k3(logprobs[t]!, reference[t]!).value)
        }
        const byEntropy = entropy_coefficient > 0 ? scale.map((s) => -entropy_coefficient * s) : null
        return { loss: tally.loss, logprobs: slopes, entropies: byEntropy, values: null, tally }
      },
    }
  },
})
