// A worker of `leyden rollouts run`: orders come a line on standard input, results go a line on standard output.

import { createInterface } from 'node:readline'

import type { Order, Result } from './order.ts'
import { flush, rolloutSpan } from './tracer.ts'

/** Runs every order, several at a time where they come so. A number is the rollout's reward; what is thrown is a failure. */
export async function worker(run: (order: Order) => Promise<number | Pick<Result, 'status' | 'reward'> | void>): Promise<void> {
  const running = new Set<Promise<void>>()
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as Order
    const one = answer(order, () => run(order)).finally(() => running.delete(one))
    running.add(one)
  }
  await Promise.all(running)
}

async function answer({ rollout_id, attempt_id, traceparent }: Order, run: () => ReturnType<Parameters<typeof worker>[0]>): Promise<void> {
  const ids = { 'leyden.rollout.id': rollout_id, 'leyden.attempt.id': attempt_id }
  const said = await rolloutSpan(ids, run, traceparent).catch((error: unknown) => {
    console.error(error)
    return { status: 'failed' }
  })
  await flush()
  const outcome = typeof said === 'object' ? said : { status: 'succeeded', reward: said }
  console.log(JSON.stringify({ rollout_id, attempt_id, ...outcome }))
}
