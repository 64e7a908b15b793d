// AIR, automatic intermediate rewarding: what tools did, told from their spans, as a signal between the first call and the
// outcome. This stands behind policy_calls; what it finds becomes credit in credit_assignment.

import { classifier, FINE } from '../credit/air.ts'
import { annealed, oldestVersion } from '../credit/schedule.ts'
import { causalityOf, lastBefore } from '../data/causality.ts'
import { place } from '../data/place.ts'
import type { Rollout, Tool, Transition } from '../data/rollout.ts'
import { processor } from '../pipeline/component.ts'
import { group, list, number, oneOf, text } from '../pipeline/schema.ts'

/** At half of the reward range a failure with all bonuses would be worth a success with all maluses. */
const CAP_LIMIT = 0.5

const patterns = (doc: string) => list(text('A pattern.'), doc, { default: [] })

export default processor({
  type: 'air',
  summary: 'Judges what tools really did: ok, empty, an error of the policy or of the environment.',
  signals: ['rollouts'],
  config: {
    mode: oneOf(
      ['potential', 'bonus', 'off'],
      'How that becomes credit. `potential`: as the value function of gae_turn, which leaves the optimum where it is; `bonus`: as rewards, capped and paid once.',
      { default: 'potential' },
    ),
    c: number('In mode `potential`, the most that successful tools promise, as a share of the reward range.', {
      default: 0.3,
      min: 0,
      max: 1,
    }),
    cap: number('In mode `bonus`, the most that a rollout earns or loses by its tools, as a share of the reward range. Below 0.5.', {
      default: 0.2,
      min: 0,
    }),
    anneal: number(
      'In mode `bonus`, over how many versions of the policy the cap shrinks to 0, so that in the end the outcome alone counts. 0: it stays. Calls without a version get all of it.',
      { default: 120, min: 0, integer: true },
    ),
    rules: list(
      group(
        {
          class: oneOf(['ok', 'empty', 'policy_error', 'env_error'], 'What the tool execution counts as.'),
          tools: patterns('Globs on the name of the tool.'),
          statuses: patterns('What the span says: ok, error or unknown.'),
          error_types: patterns('Globs on error.type or the type of the exception.'),
          http_statuses: patterns('Globs on the HTTP status, such as `5??`.'),
          grpc_statuses: patterns('Globs on the number of the gRPC status.'),
          exit_codes: patterns('Globs on the exit code of the process.'),
          texts: patterns('Regular expressions on the first 500 characters of the result, in any case.'),
        },
        'One rule. It holds when each of its lists that is given holds a match.',
      ),
      'Tried in order, before the built-in ones; the first that holds decides.',
      { default: [] },
    ),
  },
  check({ cap, rules }) {
    const problems = rules.flatMap(({ texts }, i) =>
      texts.flatMap((pattern, j) => {
        const message = regexProblem(pattern)
        return message ? [{ path: ['rules', String(i), 'texts', String(j)], message }] : []
      }),
    )
    if (cap < CAP_LIMIT) return problems
    const message = `must be below ${CAP_LIMIT}, or a failure could earn as much as a success (got ${cap})`
    return [...problems, { path: ['cap'], message }]
  },
  create({ mode, c, cap, anneal, rules }, { count }) {
    const classify = classifier(rules)
    const judged = (tool: Tool, requested_by: string): Tool => {
      const judgement = judgeable(tool) ? classify(tool) : undefined
      // That nothing speaks against a tool of which nothing is known says nothing for it.
      const isKnown = judgement !== undefined && (judgement !== FINE || tool.verdict.status !== 'unknown')
      if (!isKnown) return requested_by === tool.requested_by ? tool : { ...tool, requested_by }
      return { ...tool, requested_by, ...judgement }
    }
    return {
      process(rollout: Rollout): Rollout {
        if (mode === 'off') return { ...rollout, air_mode: mode }
        const requestedBy = askers(rollout)
        const tools = rollout.tools.map((tool, i) => judged(tool, requestedBy(tool, i)))
        for (const [air_class, n] of tally(tools)) count('leyden_air_tools', n, { class: air_class })
        const transitions = sparingOutages(rollout.transitions, tools)
        const air_weight = mode === 'potential' ? c : cap * annealed(oldestVersion(transitions), anneal)
        return { ...rollout, air_mode: mode, air_weight, tools, transitions }
      },
    }
  },
})

function regexProblem(pattern: string): string | null {
  try {
    new RegExp(pattern)
    return null
  } catch (error) {
    return `must be a regular expression (${(error as Error).message})`
  }
}

/** What a judge's tools do says nothing of the policy; of a tool that was only asked for nobody knows that it ran. */
const judgeable = (tool: Tool) => !tool.judged && !(tool.inferred && tool.verdict.status === 'unknown')

function tally(tools: readonly Tool[]): Map<string, number> {
  const classes = new Map<string, number>()
  for (const { air_class = 'none' } of tools) classes.set(air_class, (classes.get(air_class) ?? 0) + 1)
  return classes
}

/** Which call asked for each tool: where no id names it, the tree tells which one led to it. */
function askers({ tree, calls, tools }: Rollout): (tool: Tool, i: number) => string {
  if (tools.every((tool) => tool.requested_by !== '')) return (tool) => tool.requested_by
  const asking = calls.filter((call) => !call.judged)
  const { tree: whole, nodes } = place(tree, [...asking, ...tools])
  const callAt = new Array<string | undefined>(whole.count)
  asking.forEach((call, i) => (callAt[nodes[i]!] = call.span_id))
  const last = lastBefore(causalityOf(whole), nodes.slice(0, asking.length))
  return (tool, i) => tool.requested_by || (callAt[last[nodes[asking.length + i]!]!] ?? '')
}

/** A call whose tool met an outage that the run never got over is not trained: what it was worth cannot be told. */
function sparingOutages(transitions: readonly Transition[], tools: readonly Tool[]): readonly Transition[] {
  const indices = new Map(transitions.map((t, i) => [t.span_id, i]))
  const asked = (air_class: string) => tools.filter((t) => t.air_class === air_class).map((t) => indices.get(t.requested_by) ?? -1)
  const lastSuccess = asked('ok').reduce((a, b) => Math.max(a, b), -1)
  const spared = new Set(asked('env_error').filter((index) => index > lastSuccess))
  return spared.size === 0 ? transitions : transitions.map((t, i) => (spared.has(i) ? { ...t, weight: 0 } : t))
}
