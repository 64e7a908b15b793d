// What `leyden doctor` found, counted and in words.

import { differences, shown, type Difference } from './difference.ts'

/** What became of a rollout's calls, by span id. */
export interface Outcome {
  readonly transitions: Map<string, Readonly<Record<string, unknown>>>
  /** Reasons. */
  readonly rejects: Map<string, string>
}

export interface Replayed {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly before: Outcome
  readonly after: Outcome
}

interface Call {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly span_id: string
}

export interface Diagnosis {
  readonly rollouts: number
  /** Rollouts whose spans are not stored any more. */
  readonly without_spans: number
  readonly same: number
  readonly appear: readonly (Call & { readonly policy: unknown; readonly was: string })[]
  readonly vanish: readonly (Call & { readonly reason: string })[]
  readonly change: readonly (Call & { readonly differences: readonly Difference[] })[]
}

const NOT_READ = 'not read as a call'

export function diagnose(replayed: readonly Replayed[], without_spans: number): Diagnosis {
  const appear: Diagnosis['appear'][number][] = []
  const vanish: Diagnosis['vanish'][number][] = []
  const change: Diagnosis['change'][number][] = []
  let same = 0
  for (const { rollout_id, attempt_id, before, after } of replayed) {
    for (const [span_id, transition] of after.transitions) {
      const call = { rollout_id, attempt_id, span_id }
      const earlier = before.transitions.get(span_id)
      const found = earlier ? differences(earlier, transition) : []
      if (!earlier) appear.push({ ...call, policy: transition.policy, was: before.rejects.get(span_id) ?? NOT_READ })
      else if (found.length > 0) change.push({ ...call, differences: found })
      else same++
    }
    for (const span_id of before.transitions.keys()) {
      if (after.transitions.has(span_id)) continue
      vanish.push({ rollout_id, attempt_id, span_id, reason: after.rejects.get(span_id) ?? NOT_READ })
    }
  }
  return { rollouts: replayed.length, without_spans, same, appear, vanish, change }
}

export const diagnosisJson = (diagnosis: Diagnosis): string => `${JSON.stringify(diagnosis, null, 1)}\n`

const EXAMPLES = 10

export function diagnosisText({ rollouts, without_spans, same, appear, vanish, change }: Diagnosis): string {
  const gone = without_spans === 0 ? '' : `; ${without_spans} more have no spans any more`
  return [
    `${rollouts} rollouts replayed${gone}: ${appear.length} transitions appear, ${vanish.length} vanish, ${change.length} change, ${same} stay.\n`,
    section(
      'Appear',
      appear.map(({ was }) => [`were: ${was}`]),
      appear.map((call) => `${place(call)}  policy ${String(call.policy)}, was: ${call.was}`),
    ),
    section(
      'Vanish',
      vanish.map(({ reason }) => [`now: ${reason}`]),
      vanish.map((call) => `${place(call)}  now: ${call.reason}`),
    ),
    section(
      'Change',
      change.map((call) => call.differences.map(({ path }) => path.replace(/[[.].*/, ''))),
      change.map((call) => `${place(call)}  ${call.differences.map(inWords).join(', ')}`),
    ),
  ].join('')
}

/** @param kinds of each call, to be counted */
function section(title: string, kinds: readonly (readonly string[])[], calls: readonly string[]): string {
  if (calls.length === 0) return ''
  const counts = new Map<string, number>()
  for (const kind of kinds.flatMap((own) => [...new Set(own)])) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const totals = [...counts].sort((a, b) => b[1] - a[1]).map(([kind, count]) => `  ${count} × ${kind}`)
  const more = calls.length > EXAMPLES ? [`    … and ${calls.length - EXAMPLES} more: --format json lists all`] : []
  return `\n${title}\n${[...totals, ...calls.slice(0, EXAMPLES).map((call) => `    ${call}`), ...more].join('\n')}\n`
}

const place = ({ rollout_id, attempt_id, span_id }: Call) => `${rollout_id}${attempt_id && `/${attempt_id}`} span ${span_id}`
const inWords = ({ path, before, after }: Difference) => `${path} ${shown(before)} → ${shown(after)}`
