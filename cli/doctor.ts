// What a changed configuration would change: stored rollouts go once more through its processors, in memory.

import { assemble } from '../data/assemble.ts'
import type { Rollout, Transition } from '../data/rollout.ts'
import { routeKey } from '../data/routing.ts'
import { dialects } from '../dialects/index.ts'
import { connect } from '../storage/connection.ts'
import { itemsOf, lastRollouts, outcomesOf, type RolloutId } from '../storage/replay.ts'
import type { Io } from './command.ts'
import { diagnose, diagnosisJson, diagnosisText, type Outcome, type Replayed } from './diagnosis.ts'
import { command, loadPlan, UsageError } from './flags.ts'
import { rolloutProcessor } from './rollout_processors.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Shows which transitions would appear, vanish or change under a configuration: the last rollouts are read again from their stored
spans and pass the processors of its first rollouts pipeline. Nothing is written.

Usage:
  leyden doctor --config new.yaml [flags]

Flags:
${storageFlagsHelp}  --last <n>         how many rollouts, 1000 unless told
  --against <source> a configuration to compare with; without it, the transitions that are stored
  --format <name>    text (default) or json, which lists all
Advantages are made from whole groups and are not compared.

Examples:
  leyden doctor --config new.yaml
  leyden doctor --config new.yaml --against config/pipeline.yaml --last 200
`

/** Rollouts whose spans are in memory at once. */
const TOGETHER = 50

export const doctor = command({
  help: HELP,
  flags: {
    ...storageFlags,
    last: { type: 'string', default: '1000' },
    against: { type: 'string' },
    format: { type: 'string', default: 'text' },
  },
  async run(flags, io) {
    const { last, against, format } = flags
    if (!flags.config) throw new UsageError('name the configuration to try: leyden doctor --config new.yaml')
    if (!/^[1-9]\d{0,6}$/.test(last)) throw new UsageError(`--last must be a number of rollouts (got "${last}")`)
    if (!['json', 'text'].includes(format)) throw new UsageError(`--format must be text or json (got "${format}")`)
    const plan = await loadPlan(flags, io)
    const other = against === undefined ? undefined : await loadPlan({ config: [against] }, io)
    const options = plan && (await storageOptions(flags, { ...io, stderr() {} }))
    if (!options || (against !== undefined && !other)) return 1
    requireData(options)

    const { client, close } = await connect(options)
    try {
      const ids = await lastRollouts(client, Number(last))
      const then = rolloutProcessor(plan)
      const now = other && rolloutProcessor(other)
      const replayed: Replayed[] = []
      for (let i = 0; i < ids.length; i += TOGETHER) {
        const some = ids.slice(i, i + TOGETHER)
        const items = await itemsOf(client, some)
        const stored = now ? undefined : await storedOutcomes(client, some)
        for (const { rollout_id, attempt_id } of some) {
          const key = routeKey(rollout_id, attempt_id)
          const own = items.get(key)
          if (!own) continue
          const rollout = assemble(own, dialects, { key, closed_by: 'replay', revision: 0, covered_until: 0 })
          const before = now ? outcomeOf(await now(rollout)) : stored!.get(key)!
          replayed.push({ rollout_id, attempt_id, before, after: outcomeOf(await then(rollout)) })
        }
        progress(io, Math.min(i + TOGETHER, ids.length), ids.length)
      }
      const diagnosis = diagnose(replayed, ids.length - replayed.length)
      io.stdout(format === 'json' ? diagnosisJson(diagnosis) : diagnosisText(diagnosis))
      return 0
    } finally {
      await close()
    }
  },
})

function progress(io: Io, done: number, of: number): void {
  if (io.terminal) io.stderr(`replayed ${done} of ${of} rollouts${done < of ? '\r' : '\n'}`)
}

async function storedOutcomes(client: Parameters<typeof outcomesOf>[0], ids: readonly RolloutId[]): Promise<Map<string, Outcome>> {
  const outcomes = new Map(ids.map(({ rollout_id, attempt_id }) => [routeKey(rollout_id, attempt_id), empty()]))
  const { transitions, rejects } = await outcomesOf(client, ids)
  for (const { rollout_id, attempt_id, span_id, ...transition } of transitions) {
    outcomes.get(routeKey(rollout_id, attempt_id))?.transitions.set(span_id, transition)
  }
  for (const { rollout_id, attempt_id, span_id, reason } of rejects) {
    outcomes.get(routeKey(rollout_id, attempt_id))?.rejects.set(span_id, reason)
  }
  return outcomes
}

function outcomeOf(rollout: Rollout | null): Outcome {
  const outcome = empty()
  for (const transition of rollout?.transitions ?? []) outcome.transitions.set(transition.span_id, decided(transition))
  for (const { span_id, reason } of rollout?.rejects ?? []) outcome.rejects.set(span_id, reason)
  return outcome
}

const empty = (): Outcome => ({ transitions: new Map(), rejects: new Map() })

/** What a pipeline decides of a transition. Its place among the others follows from them. */
function decided(transition: Transition) {
  const { policy, policy_version, agent, reward_outcome, reward_intermediate, weight, credit_method, flags } = transition
  return { policy, policy_version, agent, reward_outcome, reward_intermediate, return: transition.return, weight, credit_method, flags }
}
