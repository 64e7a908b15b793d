// The experiments, and what can be taken from or put into each.

import { fileURLToPath } from 'node:url'

import { seeded, type Random } from '../random.ts'

/** Agents that run under `leyden rollouts run`, in a folder of that name beside this one. */
export interface Subject {
  readonly name: string
  /** Program and arguments of a worker. */
  readonly worker: readonly string[]
  /** Rollouts that one worker has at once. */
  readonly concurrency: number
  readonly task: (side: 'train' | 'val', random: Random) => object
}

export interface Experiment extends Subject {
  readonly steps: number
  /** Of the short form: rollouts enough to see the reward rise. */
  readonly short_steps: number
  /** By how much the mean reward of the short form's second half must lie above that of its first. */
  readonly short_rise: number
  /** Held-out greedy reward of the trained policy, median of the seeds, and the most that its base may have. */
  readonly goal: { readonly trained: number; readonly base: number }
}

/** How many updates it takes until a sparse reward comes reliably, by how credit is given. */
export interface Race extends Subject {
  /** Groups of an update, and rollouts of a group. */
  readonly groups: number
  readonly group_size: number
  /** A seed that has not got there by then never did. */
  readonly most_updates: number
  /** Changes of the configuration. The others are compared with the first. */
  readonly arms: Readonly<Record<string, readonly string[]>>
  /** An arm, and the most updates that it may take, as a share of those of the first arm. */
  readonly goal: { readonly arm: string; readonly share: number }
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
  // A conversation of several turns scored once, or once for each turn.
  rows: {
    merged: [],
    per_turn: ['extensions::trainer::rows: per_turn'],
  },
  // The endpoint's token ids, or those that the trainer makes of the text where it gets no others.
  tokens: {
    engine: [],
    retokenized: [
      "processors::redaction: { detect: [], blocked_keys: [], allowed_keys: ['gen_ai.*', 'leyden.*', 'agentlightning.*', 'error.*'] }",
      'service::pipelines::traces::processors: [redaction]',
      'extensions::trainer::allow_retokenized: true',
    ],
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
    short_steps: 28,
    short_rise: 0.15,
    task: (await import('../multi_hop/tasks.ts')).question,
    goal: { trained: 0.7, base: 0.2 },
  },
  {
    name: 'math_tool',
    worker: [process.env.PYTHON ?? 'python3', 'examples/math_tool/agent.py'],
    concurrency: 24,
    steps: 60,
    short_steps: 20,
    short_rise: 0.15,
    task: (await import('../math_tool/tasks.ts')).problem,
    goal: { trained: 0.95, base: 0.6 },
  },
]

export const races: readonly Race[] = [
  {
    name: 'long_horizon',
    worker: node('../long_horizon/worker.js'),
    concurrency: 16,
    task: (await import('../long_horizon/tasks.ts')).order,
    groups: 2,
    group_size: 16,
    most_updates: 120,
    // Each learns at the rate that was best for it: of 0.00075, 0.0015, 0.003 and 0.006.
    arms: {
      terminal: ['processors::air::mode: "off"', 'processors::credit_assignment::method: identical'],
      potential: [],
      // Control: the same method and the same lambdas without what they lean on.
      'no potential': [
        'processors::air::mode: "off"',
        'processors::credit_assignment::method: gae_turn',
        'extensions::trainer::learning_rate: 0.003',
      ],
    },
    goal: { arm: 'potential', share: 0.8 },
  },
]

/** The same tasks each time: what differs between seeds is the order, and what the policy draws. */
export function tasksOf({ task }: Subject, side: 'train' | 'val', count: number): object[] {
  const random = seeded(side === 'train' ? 1 : 2)
  return Array.from({ length: count }, () => task(side, random))
}
