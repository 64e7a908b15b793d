// Picks the calls that are trained. What each call was read as, and why it is none, is also what `leyden explain` prints.

import { policyFinder, selectPolicyCalls } from '../data/policy_calls.ts'
import type { Rollout } from '../data/rollout.ts'
import { processor } from '../pipeline/component.ts'
import { group, list, map, number, oneOf, text } from '../pipeline/schema.ts'

const patterns = (doc: string) => list(text('A glob.'), doc, { default: [] })

export default processor({
  type: 'policy_calls',
  summary: 'Turns the calls of policies into transitions, and says of every other call why it is none.',
  signals: ['rollouts'],
  config: {
    policies: list(
      group(
        {
          name: text('Name of the policy, as in the column `policy`.'),
          models: patterns('Globs on the model, as it was asked for or as it answered; a provider before it does not matter. Empty: any.'),
          agents: patterns('Globs on the agent that made the call. Empty: any.'),
          endpoints: patterns('Globs on host and port of the model server. Empty: any.'),
          operations: list(text('An operation.'), 'What the model was asked to do.', {
            default: ['chat', 'generate_content', 'text_completion'],
          }),
        },
        'A policy under training. It has the calls that fit all of its lists.',
      ),
      'Tried in order; the first that takes a call has it, and one name may stand more than once. Calls of judges, evaluators and rewards are never taken.',
      { default: [{ name: 'default' }] },
    ),
    rewards: group(
      {
        primary: text('Name of the reward that counts where its giver does not say so and there are several.', { default: null }),
        weights: map(
          number('Its weight.'),
          'By name of reward: the outcome is then the weighted sum of the latest value of each. Names that nobody gave are left out.',
          { default: {} },
        ),
        human: oneOf(
          ['as_any', 'override'],
          'Whether what a person says of the whole rollout counts as any reward, or stands whatever others say.',
          { default: 'as_any' },
        ),
      },
      'How the rewards of a rollout make its outcome. A score with `override: true` always stands.',
      { default: {} },
    ),
  },
  create({ policies, rewards }, { count }) {
    const policyOf = policyFinder(policies)
    return {
      process(rollout: Rollout): Rollout {
        const selected = selectPolicyCalls(rollout, policyOf, rewards)
        for (const { reason } of selected.rejects) count('leyden_rejected_calls', 1, { reason })
        return { ...rollout, ...selected }
      },
    }
  },
})
