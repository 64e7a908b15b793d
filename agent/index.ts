// leyden/agent: for Node agents that run no OpenTelemetry. No other part of Leyden is loaded.

import { randomBytes } from 'node:crypto'

import type { Order } from './order.ts'
import { open, rolloutSpan, within } from './tracer.ts'

export { trace } from './openai.ts'
export { dropped, flush } from './tracer.ts'
export { worker } from './worker.ts'

/** The same function; each call of it is a span of the tool's. */
export function tool<A extends unknown[], R>(name: string, run: (...args: A) => R | Promise<R>): (...args: A) => Promise<R> {
  return (...args) => {
    const called = { 'gen_ai.tool.name': name, 'gen_ai.tool.call.arguments': textOf(args.length === 1 ? args[0] : args) }
    return within(`execute_tool ${name}`, { 'gen_ai.operation.name': 'execute_tool', ...called }, async (span) => {
      const result = await run(...args)
      span.setAttribute('gen_ai.tool.call.result', textOf(result))
      return result
    })
  }
}

/** What the rollout has earned; said before the model was called for the last time, what was earned on the way. */
export function reward(value: number, name = 'reward'): void {
  open('agentlightning.annotation', { 'agentlightning.reward.0.name': name, 'agentlightning.reward.0.value': value }).end()
}

type Ids = Partial<Pick<Order, 'rollout_id' | 'task_id' | 'group_id' | 'group_size' | 'mode'>>

/** Runs one try of a task: everything that is traced meanwhile belongs to it. */
export function rollout<T>(run: () => Promise<T>, ids: Ids = {}): Promise<T> {
  const named = { rollout_id: `ro-${randomBytes(6).toString('hex')}`, ...ids }
  return rolloutSpan(Object.fromEntries(Object.entries(named).map(([key, value]) => [`leyden.${key.replace('_', '.')}`, value])), run)
}

/** A part of the rollout that is an agent's: calls in it are that agent's. */
export const agent = <T>(name: string, run: () => Promise<T>): Promise<T> =>
  within(`invoke_agent ${name}`, { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': name }, run)

function textOf(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  } catch {
    return String(value)
  }
}
