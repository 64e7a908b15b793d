// Shows on the log what passes: how much, what, or everything.

import { inspect } from 'node:util'

import type { Rollout } from '../data/rollout.ts'
import { readItem } from '../data/scan.ts'
import type { Attributes, LogRecord, Span } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { exporter, type Signal } from '../pipeline/component.ts'
import { oneOf } from '../pipeline/schema.ts'

export default exporter({
  type: 'debug',
  summary: 'Writes what passes to the log.',
  signals: ['traces', 'logs', 'rollouts'],
  config: {
    verbosity: oneOf(['basic', 'normal', 'detailed'], '`basic` counts, `normal` adds a line for each item, `detailed` shows all of each.', {
      default: 'basic',
    }),
  },

  create({ verbosity }, { log }) {
    return {
      async export(items, signal) {
        const { title, counts, lines, details } = signal === 'rollouts' ? ofRollouts(items) : ofBatches(signal, items)
        log.info(title, counts)
        if (verbosity === 'normal') log.info(lines().join('\n'))
        if (verbosity === 'detailed') log.info(details().map(all).join('\n'))
      },
    }
  },
})

interface Shown {
  readonly title: string
  readonly counts: Readonly<Record<string, number>>
  lines(): string[]
  details(): unknown[]
}

const all = (value: unknown) => inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, breakLength: 140 })
const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0)

function ofBatches(signal: Signal, batches: readonly SpanBatch[]): Shown {
  const [title, kind, unit] = signal === 'traces' ? ['Traces', 'spans', 'spans'] : ['Logs', 'logs', 'log records']
  const items = () => batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i)))
  return {
    title,
    counts: {
      [`resource ${kind}`]: sum(batches.map((batch) => batch.resources.length)),
      [unit]: sum(batches.map((batch) => batch.count)),
    },
    lines: () => items().map(line),
    details: items,
  }
}

function line(item: Span | LogRecord): string {
  const name = item.signal === 'span' ? item.name : item.event_name || String(item.body)
  return [name, item.trace_id, item.span_id, ...pairs(item.attributes)].filter(Boolean).join(' ')
}

const pairs = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, value]) => `${key}=${typeof value === 'string' ? value : all(value)}`)

function ofRollouts(rollouts: readonly Rollout[]): Shown {
  const total = (key: 'calls' | 'transitions' | 'rejects') => sum(rollouts.map((rollout) => rollout[key].length))
  return {
    title: 'Rollouts',
    counts: { rollouts: rollouts.length, calls: total('calls'), transitions: total('transitions'), rejects: total('rejects') },
    lines: () =>
      rollouts.map(({ rollout_id, attempt_id, status, outcome, calls, transitions, rejects }) => {
        const facts = { status, outcome, calls: calls.length, transitions: transitions.length, rejects: rejects.length }
        return [rollout_id, attempt_id, ...Object.entries(facts).map(([key, value]) => `${key}=${value}`)].filter(Boolean).join(' ')
      }),
    details: () => rollouts.map(({ tree: _, ...rollout }) => rollout),
  }
}
