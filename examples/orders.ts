// The loop of a worker of `leyden rollouts run`: an order a line on standard input, a result a line on standard output, several at once.

import { createInterface } from 'node:readline'

import type { Order, Result } from '../agent/order.ts'

export type { Order }

/** Resolves when the last order is answered. What `run` throws is told, and is a failed rollout. */
export async function answerOrders(run: (order: Order) => Promise<Pick<Result, 'status' | 'reward'>>): Promise<void> {
  const running = new Set<Promise<void>>()
  for await (const line of createInterface({ input: process.stdin })) {
    const one = answer(JSON.parse(line) as Order).finally(() => running.delete(one))
    running.add(one)
  }
  await Promise.all(running)

  async function answer(order: Order): Promise<void> {
    const { rollout_id, attempt_id } = order
    const outcome = await run(order).catch((error: Error): Pick<Result, 'status'> => {
      console.error(`rollout ${rollout_id}: ${error.message}`)
      return { status: 'failed' }
    })
    console.log(JSON.stringify({ rollout_id, attempt_id, ...outcome }))
  }
}
