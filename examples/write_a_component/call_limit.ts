// Rollouts that go round in circles run into a limit of ours, long before they run into one of the model server's.

import type { Rollout } from '../../data/rollout.ts'
import { processor } from '../../pipeline/component.ts'
import { number } from '../../pipeline/schema.ts'

export default processor({
  type: 'call_limit',
  summary: 'Marks rollouts that made too many model calls as having run into a limit, so that loops do not pay.',
  signals: ['rollouts'],
  config: {
    max_calls: number('A rollout with more model calls gets the status `limit`.', { default: 50, min: 1, integer: true }),
  },

  create({ max_calls }, context) {
    return {
      process(rollout: Rollout): Rollout {
        if (rollout.calls.length <= max_calls) return rollout
        context.count('leyden_rollouts_over_call_limit')
        return { ...rollout, status: 'limit' }
      },
    }
  },
})
