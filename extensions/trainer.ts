// Runs `leyden train` in a process of its own, since an update keeps a processor busy for seconds, and starts it again when it dies.

import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

import { extension, type Context } from '../pipeline/component.ts'
import { flag, group, list, number, oneOf, text, type Field, type Fields } from '../pipeline/schema.ts'
import type { OpenStorage } from '../storage/open.ts'
import { algorithms, type AlgorithmName } from '../trainer/algorithms/index.ts'
import type { Algorithm, Option } from '../trainer/algorithm.ts'
import { PAUSED, TRAINER_VARIABLE, type TrainerMessage } from '../trainer/process.ts'

const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000
/** What a step may take to come to its end at shutdown. It loses nothing but time when it is killed. */
const GRACE_MS = 10_000

export default extension({
  type: 'trainer',
  summary: 'Trains a policy on complete groups of rollouts, in a process of its own, and publishes its versions.',
  config: {
    policy: text('The policy, as `policy_calls` names it.', { default: 'default' }),
    base: text('Folder of the Hugging Face model that training begins with: version 0.', { example: './models/base' }),
    policies_dir: text('Folder of the versions: `<policies_dir>/<policy>/<version>`.', { default: 'leyden_policies' }),
    storage: text('The clickhouse_storage extension that rollouts are read from.', { default: 'clickhouse_storage' }),

    algorithm: oneOf(Object.keys(algorithms) as AlgorithmName[], 'How the policy learns; each has options under its own name.', {
      default: 'grpo',
    }),
    ...algorithmGroups(),
    learning_rate: number('Step size of AdamW; about 1e-6 for billions of parameters, 1e-5 with `lora`, 1e-3 for ten thousands.', {
      default: 1e-5,
      min: 0,
    }),
    schedule: oneOf(
      ['constant', 'linear', 'cosine'],
      'How the learning rate goes on after warm-up; down to 0 at `steps` unless constant.',
      {
        default: 'constant',
      },
    ),
    warmup_steps: number('Steps over which the learning rate rises from 0.', { default: 0, min: 0, integer: true }),
    optimizer: group(
      {
        beta1: number('Decay of the first moment.', { default: 0.9, min: 0, max: 1 }),
        beta2: number('Decay of the second moment.', { default: 0.999, min: 0, max: 1 }),
        epsilon: number('Added to the denominator.', { default: 1e-8, min: 0 }),
        weight_decay: number('Decoupled weight decay.', { default: 0, min: 0 }),
        clip_norm: number('Gradients are clipped to this global norm.', { default: 1, min: 0 }),
      },
      'AdamW.',
    ),

    steps: number('Training ends after this step; not set: it goes on as long as there are rollouts.', {
      default: null,
      min: 0,
      integer: true,
    }),
    groups_per_step: number('Groups of rollouts that a step learns from.', { default: 12, min: 1, integer: true }),
    epochs: number('How often a step goes through its rows.', { default: 1, min: 1, integer: true }),
    minibatches: number('Updates in each epoch.', { default: 1, min: 1, integer: true }),
    max_staleness: number('How many versions may have been published since the one that sampled a row.', {
      default: 1,
      min: 0,
      integer: true,
    }),
    rows: oneOf(
      ['merged', 'per_turn'],
      'Whether turns that go on in one conversation are one row, or each is a row; the same is learned, at a higher price.',
      { default: 'merged' },
    ),
    max_tokens: number("Longest row; not set: the model's context.", { default: null, min: 2, integer: true }),
    allow_retokenized: flag('Whether turns without token ids are tokenized from their text. They may differ from what was sampled.', {
      default: false,
    }),

    publish_every: number('A version is published every so many steps.', { default: 1, min: 1, integer: true }),
    promote: oneOf(['auto', 'manual'], 'Whether a version is live at once, or after `leyden policies promote`.', { default: 'auto' }),
    eval_every: number('Versions that are multiples of this wait for their evaluation, on rollouts of mode val, before they are pruned.', {
      default: 10,
      min: 1,
      integer: true,
    }),
    keep: number('Versions kept beside the live one and the best in evaluation.', { default: 3, min: 1, integer: true }),
    early_stop: group(
      {
        reward: number('Training ends when an evaluation reaches this mean outcome.', { default: null }),
        patience: number('Training ends after so many evaluations that were no better than the best.', {
          default: null,
          min: 1,
          integer: true,
        }),
      },
      'When to end before `steps`.',
    ),
    on_breach: oneOf(['pause', 'continue'], 'What happens when the check of a step finds something wrong; it is told either way.', {
      default: 'pause',
    }),

    seed: number('Of everything that is drawn.', { default: 1, min: 0, max: 2 ** 21, integer: true }),
    backend: oneOf(['auto', 'node-gpu', 'wasm', 'cpu'], 'What TensorFlow computes with.', { default: 'auto' }),
    kernels: oneOf(['auto', 'blas', 'decomp'], 'Matrix products of the wasm backend: OpenBLAS where it is found, or none but its own.', {
      default: 'auto',
    }),
    tokens_per_pass: number('Most tokens that go through the model together, padding included.', { default: 4096, min: 1, integer: true }),
    lora: group(
      {
        rank: number('Rank of the adapters.', { default: 8, min: 1, integer: true }),
        alpha: number('Scale of the adapters, times rank.', { default: 16, min: 0 }),
        targets: list(text('A projection, such as q_proj.'), 'Projections that get an adapter.', {
          default: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
        }),
      },
      'Trains low-rank adapters instead of all weights.',
      { default: null },
    ),
  },

  check: ({ schedule, steps }) =>
    schedule !== 'constant' && steps === null
      ? [{ path: ['schedule'], message: `must be constant where "steps" is not set (got ${JSON.stringify(schedule)})` }]
      : [],

  create(options, context) {
    const figures = trainingMetrics(context)
    let child: ChildProcess | undefined
    let again: NodeJS.Timeout | undefined
    let pause = FIRST_PAUSE_MS
    let stopping = false

    function start(): void {
      const { connection } = context.extension<OpenStorage>(options.storage)
      child = spawn(process.execPath, [createRequire(import.meta.url).resolve('#leyden'), 'train'], {
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: { ...process.env, [TRAINER_VARIABLE]: JSON.stringify({ storage: connection, trainer: options }) },
      })
      let last = 'it gave no reason'
      forward(child.stdout!, (line) => context.log.info(line))
      forward(child.stderr!, (line) => context.log.warn((last = line)))
      child.on('message', (message: TrainerMessage) => {
        figures(message)
        if (message.kind === 'step') pause = FIRST_PAUSE_MS
      })
      // Not 'exit': what it wrote last is read first.
      child.on('close', (code, signal) => ended(code, signal === null ? last : `signal ${signal}`))
      context.health(null)
    }

    function ended(code: number | null, reason: string): void {
      child = undefined
      if (stopping || code === 0) return
      if (code === PAUSED) return context.health(`training is paused: ${reason}`)
      context.health(`the trainer ended: ${reason}`)
      context.count('leyden_trainer_restarts')
      context.log.error('The trainer ended; it is started again', { reason, in_ms: pause })
      again = setTimeout(start, pause)
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
    }

    return {
      ready: start,
      async shutdown() {
        stopping = true
        clearTimeout(again)
        if (child) await end(child)
      },
    }
  },
})

/** The options of each algorithm, below its name. */
function algorithmGroups(): Readonly<Record<AlgorithmName, Field<Readonly<Record<string, number | boolean | string>>>>> {
  const groups = Object.values(algorithms as Readonly<Record<string, Algorithm>>).map(({ type, summary, options }) => {
    const fields: Fields = Object.fromEntries(Object.entries(options).map(([name, option]) => [name, fieldOf(option)]))
    return [type, group(fields, summary)]
  })
  return Object.fromEntries(groups)
}

function fieldOf(option: Option): Field<number> | Field<boolean> | Field<string> {
  const { doc } = option
  if ('values' in option) return oneOf(option.values, doc, { default: option.default })
  if (typeof option.default === 'boolean') return flag(doc, { default: option.default })
  const { default: value, min, max, integer } = option as Extract<Option, { default: number }>
  return number(doc, {
    default: value,
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
    ...(integer ? { integer } : {}),
  })
}

function forward(from: Readable, say: (line: string) => void): void {
  createInterface({ input: from }).on('line', say)
}

/** The newest figures of the run as metrics. */
function trainingMetrics(context: Context): (message: TrainerMessage) => void {
  let step: Extract<TrainerMessage, { kind: 'step' }> | undefined
  let ready = 0
  const gauge = (name: string, read: () => number | undefined) => context.gauge(`leyden_trainer_${name}`, () => read() ?? NaN)
  gauge('step', () => step?.step.step)
  gauge('version', () => step?.version)
  gauge('reward', () => step?.step.reward)
  gauge('success', () => step?.step.success)
  gauge('kl', () => step?.step.kl)
  gauge('entropy', () => step?.step.entropy)
  gauge('tokens_per_second', () => step && step.step.tokens / step.step.seconds)
  gauge('ready_groups', () => ready)
  return (message) => {
    if (message.kind === 'waiting') {
      ready = message.ready
      return
    }
    step = message
    ready = 0
    context.count('leyden_trainer_steps')
    context.count('leyden_trainer_transitions', step.step.transitions)
    context.count('leyden_trainer_dropped_groups', step.step.dropped_groups)
    for (const [reason, n] of Object.entries(step.step.refused)) context.count('leyden_trainer_refused_transitions', n, { reason })
  }
}

async function end(child: ChildProcess): Promise<void> {
  const closed = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGTERM')
  const hard = setTimeout(() => child.kill('SIGKILL'), GRACE_MS)
  await closed
  clearTimeout(hard)
}
