// Credit again what is stored: with another method, other rewards, or from another day on.

import type { CreditSpec } from '../data/rollout.ts'
import type { RewardOptions } from '../data/rewards.ts'
import { methods } from '../credit/index.ts'
import type { Plan } from '../pipeline/config.ts'
import { openStorage } from '../storage/open.ts'
import type { Recredit } from '../storage/recredit.ts'
import { Unavailable } from '../storage/storage.ts'
import { command, loadPlan, UsageError } from './flags.ts'
import { sinceOf } from './since.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const METHODS = ['auto', ...Object.keys(methods)]

const HELP = `Computes returns and advantages of stored rollouts again, also of those whose spans have expired. Whoever reads whole groups meanwhile
sees the old credit of a group or the new one. Only one process writes credit: stop the pipeline that does before.

Usage:
  leyden recredit [flags]

Flags:
  --method <name>    ${METHODS.join(', ')}; without it, what the configuration says, else what each rollout had
  --since <time>     only rollouts that ended since: a date, a time, or how long ago, such as 7d or 12h
${storageFlagsHelp}
Example:
  leyden recredit --method return_to_go --since 7d
`

export const recredit = command({
  help: HELP,
  flags: { ...storageFlags, method: { type: 'string' }, since: { type: 'string' } },
  async run(flags, io) {
    if (flags.method !== undefined && !METHODS.includes(flags.method)) {
      throw new UsageError(`--method must be one of ${METHODS.join(', ')} (got "${flags.method}")`)
    }
    const since = flags.since === undefined ? 0 : sinceOf(flags.since, Date.now())
    const options = await storageOptions(flags, io)
    if (!options) return 1
    requireData(options)
    const plan = flags.config ? await loadPlan(flags, io) : undefined
    const configured = plan ? fromPlan(plan) : {}
    const credit = { ...configured.credit, ...(flags.method ? { method: flags.method } : {}) }
    const storage = await openStorage(options)
    try {
      const { rollouts, groups } = await storage.recredit({ ...configured, since, credit })
      io.stdout(`credited ${rollouts} rollouts in ${groups} groups\n`)
      return 0
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      io.stderr(`Error: ${error.message}\n`)
      return 1
    } finally {
      await storage.close()
    }
  },
})

/** What the first pipeline of rollouts says of credit and rewards. A lambda by schedule stays what it was for each rollout. */
function fromPlan({ processors, service }: Plan): Pick<Recredit, 'credit' | 'reward_options'> {
  const used = service.pipelines.find(({ signal }) => signal === 'rollouts')?.processors ?? []
  const configOf = (type: string) => used.map((id) => processors.get(id)!).find(({ component }) => component.type === type)?.config
  const assignment = configOf('credit_assignment') as (Omit<CreditSpec, 'lambda'> & { lambda: number | null }) | undefined
  const calls = configOf('policy_calls') as { rewards: RewardOptions } | undefined
  if (!assignment) return calls ? { reward_options: calls.rewards } : {}
  const { lambda, group_by: _, ...credit } = assignment
  return { credit: { ...credit, ...(lambda === null ? {} : { lambda }) }, ...(calls ? { reward_options: calls.rewards } : {}) }
}
