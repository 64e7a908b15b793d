// The experiments, and what can be taken from or put into each.

import { fileURLToPath } from 'node:url'

import { seeded, type Random } from '../random.ts'

export interface Experiment {
  readonly name: string
  /** Program and arguments of a worker. */
  readonly worker: readonly string[]
  /** Rollouts that one worker has at once. */
  readonly concurrency: number
  readonly steps: number
  /** Of the short form: rollouts enough to see the reward rise. */
  readonly short_steps: number
  /** By how much the mean reward of the short form's second half must lie above that of its first. */
  readonly short_rise: number
  readonly task: (side: 'train' | 'val', random: Random) => object
  /** Held-out greedy reward of the trained policy, median of the seeds, and the most that its base may have. */
  readonly goal: { readonly trained: number; readonly base: number }
}

/** Changes of the configuration, by name of what they show. The first of each is what an experiment runs with. */
export const ablations: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  air: {
    off: ['processors::air::mode: "off"'],
    potential: ['processors::air::mode: potential'],
    bonus: ['processors::air::mode: bonus'],
  },
  credit: {
    identical: ['processors::credit_assignment::method: identical'],
    return_to_go: ['processors::credit_assignment::method: return_to_go'],
    gae_turn: ['processors::credit_assignment::method: gae_turn'],
    agents: ['processors::credit_assignment::baseline: agents'],
  },
  // Of several agents on one policy, some are trained, or all.
  agents: {
    selected: [],
    all: ['processors::policy_calls::policies: [{ name: text_to_sql, models: [text_to_sql] }]'],
  },
}

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const node = (file: string) => [process.execPath, here(file)]

export const TRAIN_TASKS = 400
export const EVAL_TASKS = 100
export const TASKS_PER_STEP = 12

export const experiments: readonly Experiment[] = [
  {
    name: 'text_to_sql',
    worker: node('../text_to_sql/worker.js'),
    concurrency: 24,
    steps: 60,
    short_steps: 20,
    short_rise: 0.03,
    task: (await import('../text_to_sql/tasks.ts')).question,
    goal: { trained: 0.85, base: 0.6 },
  },
  {
    name: 'multi_hop',
    worker: node('../multi_hop/worker.js'),
    concurrency: 24,
    steps: 80,
    short_steps: 20,
    short_rise: 0.15,
    task: (await import('../multi_hop/tasks.ts')).question,
    goal: { trained: 0.7, base: 0.2 },
  },
  {
    name: 'math_tool',
    worker: [process.env.PYTHON ?? 'python3', 'examples/math_tool/agent.py'],
    concurrency: 24,
    steps: 40,
    short_steps: 20,
    short_rise: 0.15,
    task: (await import('../math_tool/tasks.ts')).problem,
    goal: { trained: 0.95, base: 0.6 },
  },
]

/** The same tasks each time: what differs between seeds is the order, and what the policy draws. */
export function tasksOf({ task }: Experiment, side: 'train' | 'val', count: number): object[] {
  const random = seeded(side === 'train' ? 1 : 2)
  return Array.from({ length: count }, () => task(side, random))
}
