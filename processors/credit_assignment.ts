// Stage A of credit: what each policy call of a rollout is worth. Advantages need the whole group, and are made beside the
// storage when it is complete.

import { assignCredit } from '../credit/assign.ts'
import { STATUS_RULES } from '../credit/statuses.ts'
import type { Rollout, StatusRule } from '../data/rollout.ts'
import { processor } from '../pipeline/component.ts'
import { flag, group, list, number, oneOf, text, type Field } from '../pipeline/schema.ts'

export default processor({
  type: 'credit_assignment',
  summary: "Gives every policy call of a rollout its share of the rollout's reward.",
  signals: ['rollouts'],
  config: {
    method: oneOf(
      ['auto', 'identical', 'last', 'discounted', 'return_to_go', 'gae_turn'],
      'How reward travels back to calls. `auto`: gae_turn where `air` works in mode potential, else identical.',
      { default: 'auto' },
    ),
    causality: oneOf(
      ['tree', 'time'],
      'What comes after a call: what the span tree says, so that no branch answers for its sibling; or all that ended later.',
      { default: 'tree' },
    ),
    gamma: number('Discount per policy call, counted back from the last one.', { default: 1, min: 0, max: 1 }),
    lambda: number(
      'How far gae_turn looks past the potential; at 1 the potential changes nothing. Unset: from 0.8 to 1 over the first 100 versions of the policy, 0.95 where calls carry no version.',
      { default: null, min: 0, max: 1 },
    ),
    baseline: oneOf(
      ['auto', 'rollouts', 'transitions', 'agents', 'none'],
      "What a return is compared with: the mean over the group's rollouts, over its transitions or over those of the same agent. `auto`: agents where two or more train, else rollouts.",
      { default: 'auto' },
    ),
    leave_one_out: flag('Whether a rollout has no part in its own baseline (RLOO).', { default: false }),
    group_by: text(
      'What makes a group: `group`, its id, or task and policy version where nobody minted one; `task`, for production, where each visit is one ' +
        'rollout: a return is compared with the mean of the other rollouts of the task, whatever version acted, and below `min_group` there ' +
        'is no advantage; or the name of an attribute that `join_keys` of the rollouts connector lists.',
      { default: 'group' },
    ),
    normalize: oneOf(['none', 'std'], 'Whether advantages are divided by the standard deviation.', { default: 'none' }),
    min_group: number('Fewer scored rollouts than this in a group give no advantage but 0.', { default: 2, min: 1, integer: true }),
    reward_range: list(number('A reward.'), 'The lowest and the highest outcome. A rollout that ran into a limit gets the lowest.', {
      default: [0, 1],
    }),
    statuses: group(
      Object.fromEntries(
        Object.entries(STATUS_RULES).map(([status, rule]) => [
          status,
          oneOf(['as_scored', 'lowest', 'left_out'], `Rollouts whose status is ${status}.`, { default: rule }),
        ]),
      ) as Record<keyof typeof STATUS_RULES, Field<StatusRule>>,
      'What a rollout counts as by how it ended: what it was scored, the lowest of `reward_range`, or nothing at all.',
      { default: {} },
    ),
    include_steps: flag('Whether identical, last and discounted add step rewards to the outcome.', { default: false }),
  },
  check({ reward_range }) {
    const [lowest, highest, ...more] = reward_range
    if (lowest !== undefined && highest !== undefined && more.length === 0 && lowest < highest) return []
    return [
      {
        path: ['reward_range'],
        message: `must be the lowest and the highest outcome, such as [0, 1] (got ${JSON.stringify(reward_range)})`,
      },
    ]
  },
  create({ reward_range, ...options }) {
    const [lowest, highest] = reward_range as readonly [number, number]
    return {
      process: (rollout: Rollout): Rollout => assignCredit(rollout, { ...options, reward_range: [lowest, highest] }),
    }
  },
})
