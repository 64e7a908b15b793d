// leyden/agent: for Node agents that run no OpenTelemetry. No other part of Leyden is loaded.

import { createInterface } from 'node:readline'

import type { Ids, Order, Result } from './order.ts'
import { flush, open, rolloutSpan, within, write } from './tracer.ts'

export { trace } from './openai.ts'
export { dropped, flush } from './tracer.ts'

/** The same function; each call of it is a span of the tool's. */
export function tool<A extends unknown[], R>(name: string, run: (...args: A) => R | Promise<R>): (...args: A) => Promise<R> {
  return (...args) =>
    within(`execute_tool ${name}`, { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': name }, async (span) => {
      write(span, () => ({ 'gen_ai.tool.call.arguments': args.length === 1 ? args[0] : args }))
      const result = await run(...args)
      write(span, () => ({ 'gen_ai.tool.call.result': result }))
      return result
    })
}

/** What the rollout has earned; said before the model was called for the last time, what was earned on the way. */
export const reward = (value: number, name = 'reward'): void =>
  open('agentlightning.annotation', { 'agentlightning.reward.0.name': name, 'agentlightning.reward.0.value': value }).end()

/** Runs one try of a task: everything that is traced meanwhile belongs to it. */
export const rollout = <T>(run: () => Promise<T>, ids: Partial<Ids> = {}): Promise<T> =>
  rolloutSpan({ rollout_id: `ro-${crypto.randomUUID()}`, ...ids }, run)

/** A part of the rollout that is an agent's: calls in it are that agent's. */
export const agent = <T>(name: string, run: () => Promise<T>): Promise<T> =>
  within(`invoke_agent ${name}`, { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': name }, run)

/** Runs the orders of `leyden rollouts run` as they come. A number is the rollout's reward; what is thrown is a failure. */
export async function worker(run: (order: Order) => Promise<number | Pick<Result, 'status' | 'reward'> | void>): Promise<void> {
  let running = Promise.resolve()
  for await (const line of createInterface({ input: process.stdin }))
    running = Promise.all([running, answer(JSON.parse(line) as Order, run)]).then(() => {})
  await running
}

async function answer(order: Order, run: Parameters<typeof worker>[0]): Promise<void> {
  const { rollout_id, attempt_id, traceparent } = order
  const said = await rolloutSpan({ rollout_id, attempt_id }, () => run(order), traceparent).catch((error: unknown) => {
    console.error(error)
    return { status: 'failed' }
  })
  await flush()
  console.log(JSON.stringify({ rollout_id, attempt_id, ...(typeof said === 'object' ? said : { status: 'succeeded', reward: said }) }))
}
