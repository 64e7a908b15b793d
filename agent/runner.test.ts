import { expect, test } from 'vitest'

import type { Order } from './order.ts'
import { runRollouts, type RunnerOptions, type RunnerParts } from './runner.ts'

const OPTIONS: RunnerOptions = {
  ...{ name: 'run', policy: 'p', group_size: 2, seed: 1, tasks: [{ task_id: 'a', input: {} }], eval_tasks: [] },
  ...{ tasks_per_step: 2, ahead: 0, steps: 3, eval_every: 10, max_attempts: 1, trainer_grace: 0, endpoint: 'http://localhost' },
}

type Trainer = 'not seen' | 'at work' | 'ended'

/** Workers that succeed at once, and a store that has what it was told of `late` questions later. */
function world({ trainer = () => 'at work', spends = true, late = 0 }: { trainer?: () => Trainer; spends?: boolean; late?: number } = {}) {
  const orders: Order[] = []
  const told: string[] = []
  let questions = 0
  const parts: RunnerParts = {
    workers: {
      run: async (order) => {
        orders.push(order)
        return { rollout_id: order.rollout_id, attempt_id: order.attempt_id, status: 'succeeded' }
      },
      close: async () => {},
    },
    store: {
      ended: async () => new Set(questions++ > late ? told : []),
      spent: async (groups) => new Set(spends ? groups : []),
      live: async () => 0,
      trainer: async () => trainer(),
    },
    deliver: async (order) => void told.push(order.rollout_id),
    report() {},
    stop: new AbortController().signal,
  }
  return { parts, orders, questions: () => questions }
}

test('a run ends when all that was told of its rollouts is stored', async () => {
  const { parts, orders, questions } = world({ late: 3 })
  expect(await runRollouts(OPTIONS, parts)).toBe('done')
  expect(orders).toHaveLength(12)
  expect(questions()).toBeGreaterThan(4)
})

test('a run that waits for an update ends when the trainer that was at work has ended', async () => {
  let looks = 0
  const { parts, orders } = world({ spends: false, trainer: () => (looks++ < 2 ? 'at work' : 'ended') })
  expect(await runRollouts(OPTIONS, parts)).toBe('trainer ended')
  expect(orders).toHaveLength(4)
})

test('a trainer that had ended before anybody looked is not waited for', async () => {
  const { parts, orders } = world({ spends: false, trainer: () => 'ended' })
  expect(await runRollouts(OPTIONS, parts)).toBe('trainer ended')
  expect(orders).toHaveLength(4)
})

test('a trainer that has not begun yet is waited for', async () => {
  const { parts, orders } = world({ spends: false, trainer: () => 'not seen' })
  const stop = new AbortController()
  const running = runRollouts(OPTIONS, { ...parts, stop: stop.signal })
  await new Promise((resolve) => setTimeout(resolve, 700))
  expect(orders).toHaveLength(4)
  stop.abort()
  expect(await running).toBe('done')
})
