// Which of a rollout's calls are a policy's, and so become transitions; and why the others do not.

import { causalityOf, lastBefore } from './causality.ts'
import { chains } from './chains.ts'
import { unfit } from './completeness.ts'
import { globs } from './glob.ts'
import { place } from './place.ts'
import { AS_GIVEN, outcome, type Outcome, type RewardOptions, type StepReward } from './rewards.ts'
import type { Call, Moment, Reject, Rollout, Transition } from './rollout.ts'
import type { GivenReward } from './standing.ts'
import type { SpanTree } from './tree.ts'

/** Lists of globs; an empty list takes everything. */
export interface Policy {
  readonly name: string
  readonly models: readonly string[]
  readonly agents: readonly string[]
  readonly endpoints: readonly string[]
  /** Not globs. */
  readonly operations: readonly string[]
}

export interface Selection {
  readonly transitions: readonly Transition[]
  readonly rejects: readonly Reject[]
  /** Reward of the whole rollout, now that its policies are known: what other models did after it takes nothing from it. */
  readonly outcome: number | null
  readonly reward_options: RewardOptions
}

/** Finds the policy that a call belongs to, '' for none: the first that takes it. */
export function policyFinder(policies: readonly Policy[]): (call: Call) => string {
  const takers = policies.map((policy) => ({ name: policy.name, takes: taker(policy) }))
  return (call) => takers.find(({ takes }) => takes(call))?.name ?? ''
}

/** Every call becomes one transition or one reject. */
export function selectPolicyCalls(rollout: Rollout, policyOf: (call: Call) => string, reward_options: RewardOptions = AS_GIVEN): Selection {
  const taken: Call[] = []
  const picked: { call: Call; policy: string }[] = []
  const rejects: Reject[] = []
  for (const call of rollout.calls) {
    const policy = policyOf(call)
    if (policy !== '' && !call.judged) taken.push(call)
    const problem = call.judged ? JUDGED : policy === '' ? noPolicy(call) : unfit(call)
    if (problem) rejects.push({ span_id: call.span_id, policy, ...problem })
    else picked.push({ call, policy })
  }

  const { rewards, given } = giveRewards(
    rollout,
    taken,
    picked.map(({ call }) => call),
    reward_options,
  )
  const parents = chains(
    picked.map(({ call }) => call),
    (step) => `${picked[step]!.policy} ${picked[step]!.call.agent ?? ''}`,
  )
  const transitions = picked.map(({ call, policy }, step): Transition => {
    const { intermediate, parts } = given[step]!
    return {
      step,
      span_id: call.span_id,
      parent_step: parents[step]!,
      trace_id: call.trace_id,
      policy,
      policy_version: call.policy_version ?? null,
      agent: call.agent ?? '',
      model: call.model,
      response_id: call.response_id ?? '',
      call,
      reward_outcome: rewards.outcome,
      reward_intermediate: intermediate,
      reward_parts: parts === NO_PARTS ? rewards.parts : { ...rewards.parts, ...parts },
      return: null,
      advantage: null,
      weight: rollout.mode === 'val' ? 0 : 1,
      credit_method: '',
      flags: call.flags,
    }
  })
  return { transitions, rejects, outcome: rewards.outcome, reward_options }
}

/**
 * What each policy call was given.
 * @param taken calls of policies
 * @param picked those of them that are trained
 */
export function giveRewards(
  { rewards, tree }: { rewards: readonly GivenReward[]; tree: SpanTree },
  taken: readonly Moment[],
  picked: readonly Moment[],
  options: RewardOptions,
): { rewards: Outcome; given: StepReward[] } {
  const found = outcome(rewards, taken, tree, options)
  return { rewards: found, given: stepRewards(tree, taken, picked, found.steps) }
}

const JUDGED = { reason: 'judged', detail: 'the call belongs to a judge, an evaluator or a reward' }

function noPolicy({ model, agent, endpoint, operation }: Call) {
  const detail = `no policy takes operation ${operation}, model ${model || '-'}, agent ${agent || '-'}, endpoint ${endpoint || '-'}`
  return { reason: 'no_policy', detail }
}

function taker(policy: Policy): (call: Call) => boolean {
  const models = globs(policy.models)
  const agents = globs(policy.agents)
  const endpoints = globs(policy.endpoints)
  return ({ operation, model, request_model = '', agent = '', endpoint = '' }) =>
    policy.operations.includes(operation) && (named(model, models) || named(request_model, models)) && agents(agent) && endpoints(endpoint)
}

/** By any of its names, with and without the providers that stand before it: `openrouter/qwen/qwen3`, `qwen/qwen3`, `qwen3`. */
function named(model: string, matches: (name: string) => boolean): boolean {
  for (let name = model; ;) {
    if (matches(name)) return true
    const slash = name.indexOf('/')
    if (slash === -1) return false
    name = name.slice(slash + 1)
  }
}

/** What each transition was given on the way. A reward of a call that cannot be trained goes to the one that led to it. */
function stepRewards(
  tree: SpanTree,
  taken: readonly Moment[],
  picked: readonly Moment[],
  steps: ReadonlyMap<string, StepReward>,
): StepReward[] {
  const given = picked.map((call) => steps.get(call.span_id) ?? NOTHING)
  if (taken.length === picked.length) return given
  const fit = new Set(picked)
  const others = taken.filter((call) => steps.has(call.span_id) && !fit.has(call))
  if (others.length === 0) return given
  const { tree: whole, nodes } = place(tree, [...picked, ...others])
  const last = lastBefore(causalityOf(whole), nodes.slice(0, picked.length))
  const indexAt = new Map(picked.map((_, i) => [nodes[i]!, i]))
  for (const [i, { span_id }] of others.entries()) {
    const owner = indexAt.get(last[nodes[picked.length + i]!]!)
    if (owner !== undefined) given[owner] = added(given[owner]!, steps.get(span_id)!)
  }
  return given
}

const NO_PARTS: StepReward['parts'] = {}
const NOTHING: StepReward = { intermediate: null, parts: NO_PARTS }

function added(a: StepReward, b: StepReward): StepReward {
  const parts = { ...a.parts }
  for (const [name, value] of Object.entries(b.parts)) parts[name] = (parts[name] ?? 0) + value
  return { intermediate: a.intermediate === null ? b.intermediate : a.intermediate + (b.intermediate ?? 0), parts }
}
