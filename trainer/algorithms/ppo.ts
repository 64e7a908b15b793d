// Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) for a language model: every token is an action. A value head says at each
// token what is still to come; generalised advantage estimation over the rewards of the whole rollout, whitened over the step; clipped surrogate,
// clipped value loss, entropy bonus. The KL from the reference is a cost of each token, by k1.
//
// A rollout is one episode: the trained tokens of its turns in the order of their steps, whichever rows they stand in; what the environment says
// in between is no action and is passed over. A turn's own reward comes with its last token. The rollout's last turn brings its return, since
// that is the outcome with what the credit step knows of limits and failures; step rewards must not be in it as well (`include_steps`).

import { algorithm } from '../algorithm.ts'
import { preparedOf, rolloutKey } from '../batch.ts'
import { clippedLoss } from '../losses/clip.ts'
import { gae } from '../losses/gae.ts'
import { importanceWeight } from '../losses/importance.ts'
import { k1, k3 } from '../losses/kl.ts'
import { count, countMore, startTally } from '../losses/tally.ts'
import { valueLoss } from '../losses/value.ts'
import { whiten } from '../losses/whiten.ts'
import type { TurnSpan } from '../row.ts'

export default algorithm({
  type: 'ppo',
  summary: 'Learns what to expect at each token with a value head: for long rollouts with rewards on the way, and tasks tried only once.',
  options: {
    gamma: { doc: 'Discount per token.', default: 1, min: 0, max: 1 },
    lambda: { doc: 'How far rewards travel past the value head: 1 ignores it, 0 trusts it alone.', default: 0.95, min: 0, max: 1 },
    clip_low: { doc: 'How far the ratio of a token may fall below 1 before it is held.', default: 0.2, min: 0, max: 1 },
    clip_high: { doc: 'How far it may rise above 1.', default: 0.2, min: 0 },
    dual_clip: { doc: 'Most that a token of a bad answer counts, as a ratio; 0 for no limit.', default: 3, min: 0 },
    weight_cap: { doc: 'Importance weights of trainer against sampler are cut here.', default: 2, min: 1 },
    loss_mean: {
      doc: 'What the loss is a mean over: rollouts, tokens (the paper), or turns.',
      default: 'rollout',
      values: ['rollout', 'token', 'turn'],
    },
    value_coefficient: { doc: 'Weight of the value loss.', default: 0.5, min: 0 },
    value_clip: { doc: 'How far a value may move in a step, in units of the reward.', default: 0.2, min: 0 },
    kl_coefficient: { doc: 'How much of the KL from the reference is taken from the reward of each token; 0 for off.', default: 0, min: 0 },
    entropy_coefficient: { doc: 'Weight of the entropy, which the loss rewards.', default: 0, min: 0 },
  },
  create(options) {
    const { gamma, lambda, weight_cap, loss_mean, value_coefficient, value_clip, kl_coefficient, entropy_coefficient } = options
    return {
      learns_from: 'return',
      weighs: true,
      old: true,
      reference: kl_coefficient > 0,
      value_head: true,

      prepare(batch) {
        const { turns, old, reference } = batch
        const advantages = new Float64Array(batch.sampler.length)
        const returns = new Float64Array(batch.sampler.length)
        for (const episode of episodes(turns)) {
          const tokens = episode.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i))
          const rewards = tokens.map((t) => (kl_coefficient > 0 ? -kl_coefficient * k1(old!.logprobs[t]!, reference![t]!) : 0))
          let end = 0
          for (const span of episode) {
            end += span.to - span.from
            rewards[end - 1]! += span === episode.at(-1) ? span.turn.return! : (span.turn.reward_intermediate ?? 0)
          }
          const values = tokens.map((t) => old!.values![t]!)
          const estimate = gae(rewards, values, gamma, lambda)
          for (const [i, t] of tokens.entries()) {
            advantages[t] = estimate.advantages[i]!
            returns[t] = estimate.returns[i]!
          }
        }
        return preparedOf(batch, whiten(advantages), { over: loss_mean, length: 1 }, returns)
      },

      loss({ advantages, returns, sampler, reference, scale, ...part }, { logprobs, entropies, values }) {
        const old = part.old!
        const slopes = new Float64Array(logprobs.length)
        const byValue = new Float64Array(logprobs.length)
        const tally = startTally()
        for (let t = 0; t < logprobs.length; t++) {
          const policy = clippedLoss(logprobs[t]!, old.logprobs[t]!, advantages[t]!, options)
          const importance = importanceWeight(old.logprobs[t]!, sampler[t]!, weight_cap)
          const value = valueLoss(values![t]!, old.values![t]!, returns![t]!, value_clip)
          tally.loss +=
            scale[t]! * (importance.weight * policy.loss + value_coefficient * value.value - entropy_coefficient * entropies[t]!)
          slopes[t] = scale[t]! * importance.weight * policy.slope
          byValue[t] = scale[t]! * value_coefficient * value.slope
          count(tally, { old: old.logprobs[t]!, logprob: logprobs[t]!, entropy: entropies[t]!, policy, importance })
          countMore(tally, 'value_loss', value.value)
          if (reference) countMore(tally, 'reference_kl', k3(logprobs[t]!, reference[t]!).value)
        }
        const byEntropy = entropy_coefficient > 0 ? scale.map((s) => -entropy_coefficient * s) : null
        return { loss: tally.loss, logprobs: slopes, entropies: byEntropy, values: byValue, tally }
      },
    }
  },
})

/** The turns of each rollout by step. */
function episodes(turns: readonly TurnSpan[]): TurnSpan[][] {
  const rollouts = new Map<string, TurnSpan[]>()
  for (const span of turns) {
    const key = rolloutKey(span.turn)
    rollouts.set(key, [...(rollouts.get(key) ?? []), span])
  }
  return [...rollouts.values()].map((spans) => spans.sort((a, b) => a.turn.step - b.turn.step))
}
