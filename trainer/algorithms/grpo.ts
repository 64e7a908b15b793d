// Group relative policy optimisation (Shao et al. 2024, arXiv 2402.03300). The advantage is what the credit step made of the group: return − mean,
// divided by the standard deviation if credit_assignment says `normalize: std`. To that, a clipped surrogate and, if wanted, a KL in the loss.
//
//   Dr.GRPO (Liu et al. 2025, arXiv 2503.20783): credit without std, loss_mean: constant, max_response_tokens: what sampling allows.
//   DAPO (Yu et al. 2025, arXiv 2503.14476): clip_high: 0.28, loss_mean: token, overlong_buffer; the trainer drops groups without signal anyway.
//
// Where the paper says sequence, a turn is meant: one answer of the policy. The paper's own mean is `turn`; the default is `rollout`, with which
// it does not matter how many turns a rollout has, nor whether they were merged.

import { algorithm, type Batch } from '../algorithm.ts'
import { preparedOf } from '../batch.ts'
import { aboveGroup } from '../group.ts'
import { clippedLoss } from '../losses/clip.ts'
import { hasStrayed, importanceWeight } from '../losses/importance.ts'
import { k2, k3, rhoK3 } from '../losses/kl.ts'
import { overlongPenalty } from '../losses/overlong.ts'
import { count, countMore, startTally } from '../losses/tally.ts'

export default algorithm({
  type: 'grpo',
  summary: "Compares a group's rollouts with each other; needs no value head. Dr.GRPO and DAPO are settings of it.",
  options: {
    clip_low: { doc: 'How far the ratio of a token may fall below 1 before it is held.', default: 0.2, min: 0, max: 1 },
    clip_high: { doc: 'How far it may rise above 1; DAPO: 0.28.', default: 0.2, min: 0 },
    dual_clip: { doc: 'Most that a token of a bad answer counts, as a ratio; 0 for no limit.', default: 3, min: 0 },
    weight_cap: { doc: 'Importance weights of trainer against sampler are cut here.', default: 2, min: 1 },
    loss_mean: {
      doc: 'What the loss is a mean over: rollouts, tokens (DAPO), turns (GRPO), sums of turns, or sums of turns by max_response_tokens (Dr.GRPO).',
      default: 'rollout',
      values: ['rollout', 'token', 'turn', 'turn_sum', 'constant'],
    },
    max_response_tokens: {
      doc: 'Longest answer that sampling allows; for overlong_buffer and loss_mean: constant.',
      default: 1024,
      min: 1,
      integer: true,
    },
    overlong_buffer: {
      doc: "Answers that come this near to max_response_tokens lose up to 1 of their return (DAPO's overlong shaping); 0 for off.",
      default: 0,
      min: 0,
      integer: true,
    },
    kl_coefficient: { doc: 'Weight of the KL from the reference in the loss; 0 for off.', default: 0, min: 0 },
    kl_estimator: { doc: 'How it is estimated; both have the right gradient.', default: 'k2', values: ['k2', 'rho_k3'] },
    entropy_coefficient: { doc: 'Weight of the entropy, which the loss rewards.', default: 0, min: 0 },
    off_policy_delta: {
      doc: 'Bad answers whose tokens have become less likely than this, in nats per token, are left out (0.5 to begin with); 0 for off.',
      default: 0,
      min: 0,
    },
  },
  create(options) {
    const { weight_cap, loss_mean, max_response_tokens, overlong_buffer } = options
    const { kl_coefficient, kl_estimator, entropy_coefficient, off_policy_delta } = options
    return {
      learns_from: 'advantage',
      weighs: true,
      old: false,
      reference: kl_coefficient > 0,
      value_head: false,

      prepare(batch) {
        const advantages = new Float64Array(batch.sampler.length)
        for (const { turn, from, to } of batch.turns) advantages.fill(turn.advantage!, from, to)
        if (overlong_buffer > 0) addOverlongShaping(advantages, batch, max_response_tokens, overlong_buffer)
        return preparedOf(batch, advantages, { over: loss_mean, length: max_response_tokens })
      },

      loss(part, { logprobs, entropies }) {
        const { turns, advantages, sampler, reference, scale } = part
        const old = part.old?.logprobs ?? logprobs
        const slopes = new Float64Array(logprobs.length)
        const tally = startTally()
        for (const { from, to } of turns) {
          const strayed = off_policy_delta > 0 && advantages[from]! < 0 && hasStrayed(logprobs, sampler, from, to, off_policy_delta)
          for (let t = from; t < to; t++) {
            const policy = clippedLoss(logprobs[t]!, old[t]!, advantages[t]!, options)
            const importance = importanceWeight(old[t]!, sampler[t]!, weight_cap)
            let loss = strayed ? 0 : importance.weight * policy.loss
            let slope = strayed ? 0 : importance.weight * policy.slope
            if (reference) {
              const kl =
                kl_estimator === 'k2'
                  ? k2(logprobs[t]!, reference[t]!)
                  : rhoK3(logprobs[t]!, reference[t]!, importance.weight * policy.ratio)
              loss += kl_coefficient * kl.value
              slope += kl_coefficient * kl.slope
              countMore(tally, 'reference_kl', k3(logprobs[t]!, reference[t]!).value)
            }
            loss -= entropy_coefficient * entropies[t]!

            tally.loss += scale[t]! * loss
            slopes[t] = scale[t]! * slope
            count(tally, { old: old[t]!, logprob: logprobs[t]!, entropy: entropies[t]!, policy, importance })
            countMore(tally, 'off_policy_masked', Number(strayed))
          }
        }
        const byEntropy = entropy_coefficient > 0 ? scale.map((s) => -entropy_coefficient * s) : null
        return { loss: tally.loss, logprobs: slopes, entropies: byEntropy, values: null, tally }
      },
    }
  },
})

/**
 * Overlong shaping belongs to the reward, before the group's mean is taken from it. As that is linear, what it does to the advantage is added to
 * the advantage that came from the credit step.
 */
function addOverlongShaping(advantages: Float64Array, { turns }: Batch, maxLength: number, buffer: number): void {
  const penalties = turns.map(({ from, to }) => overlongPenalty(to - from, maxLength, buffer))
  const shaping = aboveGroup(turns, penalties, false)
  for (const [i, { from, to }] of turns.entries()) for (let t = from; t < to; t++) advantages[t]! += shaping[i]!
}
