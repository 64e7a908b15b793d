// Rollouts for tests, in the fewest words.

import type { Call, Rollout, Transition } from '../data/rollout.ts'
import { buildTree } from '../data/tree.ts'

const START = 1_764_000_000_000_000_000n

/** A chat call; the `i`-th of its rollout begins `i` seconds after it. */
export function aCall(span_id: string, more: Partial<Call> = {}, i = 0): Call {
  const start_time = START + BigInt(i) * 1_000_000_000n
  return {
    span_id,
    parent_span_id: '',
    trace_id: 'trace',
    start_time,
    end_time: start_time + 500_000_000n,
    dialect: 'genai',
    scope: 'test',
    node: -1,
    judged: false,
    operation: 'chat',
    prompt: [{ role: 'user', parts: [{ kind: 'text', text: 'what is 6 x 7?' }] }],
    completion: { role: 'assistant', parts: [{ kind: 'text', text: '42' }] },
    finish: 'stop',
    flags: [],
    model: 'gpt-4o',
    merged_span_ids: [],
    ...more,
  }
}

export function aTransition(step: number, call: Call, more: Partial<Transition> = {}): Transition {
  return {
    step,
    span_id: call.span_id,
    parent_step: -1,
    trace_id: call.trace_id,
    policy: 'default',
    policy_version: null,
    agent: call.agent ?? '',
    model: call.model,
    response_id: call.response_id ?? '',
    call,
    reward_outcome: null,
    reward_intermediate: null,
    reward_parts: {},
    return: null,
    advantage: null,
    weight: 1,
    credit_method: 'identical',
    flags: [],
    ...more,
  }
}

/** A finished rollout of one call, or of those given; each call is a transition. */
export function aRollout({ calls = [aCall('a')], ...more }: Partial<Rollout> = {}): Rollout {
  return {
    tenant: '',
    rollout_id: 'r',
    attempt_id: '',
    task_id: '',
    group_id: '',
    group_size: 0,
    mode: 'train',
    status: 'succeeded',
    closed_by: 'root',
    complete: true,
    revision: 1,
    started_at: START,
    ended_at: START + 1_000_000_000n,
    spans: calls.length,
    covered_until: Date.now(),
    trace_ids: [],
    tree: buildTree([]),
    calls,
    tools: [],
    rewards: [],
    problems: [],
    air_mode: '',
    credit: null,
    outcome: null,
    transitions: calls.map((call, step) => aTransition(step, call)),
    rejects: [],
    ...more,
  }
}
