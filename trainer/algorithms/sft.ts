// Supervised fine-tuning on the policy's own good rollouts (rejection sampling, as in Yuan et al. 2023, arXiv 2308.01825): the negative
// log-probability of what they wrote. Not weighed by advantage, so nothing is learned from what went wrong; and since nobody asks how likely the
// answers were when they were sampled, rollouts of any other model or setting will do.

import { algorithm, type Batch } from '../algorithm.ts'
import { preparedOf, rolloutKey, selectRows } from '../batch.ts'
import { count, startTally } from '../losses/tally.ts'
import type { Turn } from '../row.ts'

export default algorithm({
  type: 'sft',
  summary: 'Imitates good rollouts: a start for a policy that never succeeds, from rollouts of any model.',
  options: {
    keep: {
      doc: 'Which rollouts are good: the best of each group, or all. Neither has less reward than min_reward.',
      default: 'best_of_group',
      values: ['best_of_group', 'all'],
    },
    min_reward: { doc: 'Least outcome of a rollout that is imitated.', default: 0.5 },
    loss_mean: {
      doc: 'What the loss is a mean over: rollouts, tokens, or turns.',
      default: 'rollout',
      values: ['rollout', 'token', 'turn'],
    },
  },
  create({ keep, min_reward, loss_mean }) {
    return {
      learns_from: 'reward_outcome',
      weighs: false,
      old: false,
      reference: false,
      value_head: false,

      prepare(batch) {
        const chosen = keep === 'all' ? passing(batch, min_reward) : best(batch, min_reward)
        const rows = [...batch.samples.keys()].filter((row) => chosen.has(rolloutKey(batch.samples[row]!.turns[0]!.turn)))
        const imitated = selectRows(batch, rows)
        return preparedOf(imitated, new Float64Array(imitated.sampler.length).fill(1), { over: loss_mean, length: 1 })
      },

      loss({ scale }, { logprobs, entropies }) {
        const slopes = new Float64Array(logprobs.length)
        const tally = startTally()
        for (let t = 0; t < logprobs.length; t++) {
          tally.loss -= scale[t]! * logprobs[t]!
          slopes[t] = -scale[t]!
          count(tally, {
            old: logprobs[t]!,
            logprob: logprobs[t]!,
            entropy: entropies[t]!,
            policy: { ratio: 1, held: '' },
            importance: { weight: 1, whole: 1 },
          })
        }
        return { loss: tally.loss, logprobs: slopes, entropies: null, values: null, tally }
      },
    }
  },
})

function passing({ turns }: Batch, least: number): Set<string> {
  return new Set(turns.filter(({ turn }) => turn.reward_outcome! >= least).map(({ turn }) => rolloutKey(turn)))
}

/** The first of those that are equally good. */
function best({ turns }: Batch, least: number): Set<string> {
  const leaders = new Map<string, Turn>()
  for (const { turn } of turns) {
    const leader = leaders.get(turn.group_id)
    if (turn.reward_outcome! >= least && (!leader || turn.reward_outcome! > leader.reward_outcome!)) leaders.set(turn.group_id, turn)
  }
  return new Set([...leaders.values()].map(rolloutKey))
}
