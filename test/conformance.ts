// What every component promises: each component's own test calls `conforms` once. And what such tests need: a component made
// from user options, a context that remembers, and items to feed it.

import { serialize } from 'node:v8'

import { describe, expect, test } from 'vitest'

import type { Call, Rollout, Transition } from '../data/rollout.ts'
import { fromJson } from '../data/otlp_json.ts'
import { readItem, scan } from '../data/scan.ts'
import type { Span } from '../data/span.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import type { Component, Context, Instances, Item, Kind, Signal } from '../pipeline/component.ts'
import { readConfig, type Fields, type Problem } from '../pipeline/schema.ts'
import { treeOf } from './random.ts'
import { chat, endOf, traces, type SpanSpec } from './spans.ts'

/** `options` are those without which the component cannot be configured. */
export function conforms<K extends Kind>(component: Component<K>, options: object = {}): void {
  describe(`${component.type} keeps what every component promises: it`, () => {
    test('names itself and its options in snake_case', () => {
      expect([component.type, ...optionNames(component.config)].filter((name) => !/^[a-z][a-z0-9_]*$/.test(name))).toEqual([])
    })

    test('finds nothing wrong with its own defaults', () => {
      expect(problems(component, options)).toEqual([])
    })

    test('says which option it does not know', () => {
      expect(problems(component, { ...options, no_such_option: 1 })).toEqual([expect.stringContaining('unknown option')])
    })

    test('can be shut down without having been started, and twice', async () => {
      const instance = configure(component, options)
      await instance.shutdown?.()
      await instance.shutdown?.()
    })

    if (component.kind === 'processor') {
      test.each(component.signals)('leaves its input alone: %s', async (signal) => {
        const item = sample(signal)
        const before = serialize(item)
        await configure(component as Component<'processor'>, options).process(item)
        expect(serialize(item).equals(before)).toBe(true)
      })
    }
  })
}

/** An instance made from options as a user writes them; an error names each that is wrong. */
export function configure<K extends Kind>(component: Component<K>, options: object = {}, context: Context = testContext()): Instances[K] {
  const found: Problem[] = []
  const config = readConfig(component.config as Fields, options, [component.type], found)
  if (found.length === 0) found.push(...(component.check?.(config) ?? []).map(({ path = [], message }) => ({ path, message })))
  if (found.length) throw new Error(found.map(({ path, message }) => `${path.join('::')}: ${message}`).join('; '))
  return component.create(config, context)
}

/** What is wrong with options. */
export function problems(component: Component, options: object): string[] {
  try {
    configure(component, options)
    return []
  } catch (error) {
    return (error as Error).message.split('; ')
  }
}

export interface TestContext extends Context {
  /** `level message`, and the fields. */
  readonly lines: { text: string; fields: Record<string, unknown> | undefined }[]
  /** Sums by name, over all labels. */
  readonly counts: Record<string, number>
  readonly gauges: Record<string, () => number>
  /** What the component last said of its health. */
  readonly problem: () => string | null
}

/** `extensions`: what `context.extension(id)` gives. */
export function testContext({ id = 'test', kind = 'processor' as Kind, signal = 'traces' as Signal, extensions = {} } = {}): TestContext {
  const lines: TestContext['lines'] = []
  const counts: Record<string, number> = {}
  const gauges: Record<string, () => number> = {}
  let problem: string | null = null
  const line = (level: string) => (message: string, fields?: Record<string, unknown>) => {
    lines.push({ text: `${level} ${message}`, fields })
  }
  const count = (name: string, n = 1) => void (counts[name] = (counts[name] ?? 0) + n)
  return {
    id,
    kind,
    signal,
    log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
    count,
    counter(name) {
      count(name, 0)
      return (n) => count(name, n)
    },
    gauge: (name, read) => void (gauges[name] = read),
    extension<T>(wanted: string): T {
      if (!(wanted in extensions)) throw new Error(`needs the extension "${wanted}"`)
      return (extensions as Record<string, T>)[wanted]!
    },
    health: (said) => void (problem = said),
    problems: () => (problem === null ? [] : [{ id, kind, problem }]),
    lines,
    counts,
    gauges,
    problem: () => problem,
  }
}

function sample<S extends Signal>(signal: S): Item<S> {
  const samples = { traces: spanBatch, logs: logBatch, rollouts: rollout }
  return samples[signal]() as Item<S>
}

/** The spans of one request; a run of an agent with one call of a model unless told. */
export function spanBatch(spans: readonly SpanSpec[] = [{ id: 'run' }, chat('call', { parent: 'run' })]): SpanBatch {
  return scan('traces', fromJson('traces', traces('trace', spans))).batch
}

/** A request of log records; the one that ends a rollout unless told. */
export function logBatch(request: object = endOf('r1')): SpanBatch {
  return scan('logs', fromJson('logs', request)).batch
}

/**
 * A rollout of `calls` policy calls, one after the other below one root (node 0 of its tree), each a transition, and with
 * `reward` as its outcome.
 */
export function rollout({
  calls: count = 3,
  reward = null as number | null,
  ...over
}: Partial<Omit<Rollout, 'calls'>> & { calls?: number; reward?: number | null } = {}): Rollout {
  const specs = Array.from({ length: count }, (_, step) => chat(`call${step}`, { parent: 'run', at: 10 + step * 10 }))
  const batch = spanBatch([{ id: 'run', at: 0, for: 20 + count * 10 }, ...specs])
  const spans = Array.from({ length: batch.count }, (_, i) => readItem(batch, i) as Span)
  const [root, ...callSpans] = spans as [Span, ...Span[]]
  const calls = callSpans.map(call)
  return {
    tenant: '',
    rollout_id: 'r1',
    attempt_id: 'a1',
    task_id: 't1',
    group_id: 'g1',
    group_size: 1,
    mode: 'train',
    status: 'succeeded',
    closed_by: 'end',
    complete: true,
    revision: 1,
    started_at: root.start_time,
    ended_at: root.end_time,
    spans: spans.length,
    covered_until: Number(root.end_time / 1_000_000n),
    trace_ids: [root.trace_id],
    tree: treeOf(spans),
    calls,
    tools: [],
    rewards: [],
    problems: [],
    air_mode: '',
    credit: null,
    outcome: reward,
    transitions: calls.map((of, step) => transition(of, step, reward)),
    rejects: [],
    ...over,
  }
}

function call({ span_id, parent_span_id, trace_id, start_time, end_time }: Span, step: number): Call {
  return {
    span_id,
    parent_span_id,
    trace_id,
    start_time,
    end_time,
    dialect: 'genai',
    scope: 'test',
    node: step + 1,
    judged: false,
    operation: 'chat',
    model: 'policy',
    prompt: [{ role: 'user', parts: [{ kind: 'text', text: `question ${step}` }] }],
    completion: { role: 'assistant', parts: [{ kind: 'text', text: `answer ${step}` }] },
    finish: 'stop',
    flags: [],
    merged_span_ids: [],
  }
}

function transition(of: Call, step: number, reward: number | null): Transition {
  return {
    step,
    span_id: of.span_id,
    parent_step: -1,
    trace_id: of.trace_id,
    policy: 'default',
    policy_version: null,
    agent: '',
    model: of.model,
    response_id: '',
    call: of,
    reward_outcome: reward,
    reward_intermediate: null,
    reward_parts: {},
    return: null,
    advantage: null,
    weight: null,
    credit_method: '',
    flags: [],
  }
}

function optionNames(fields: Fields): string[] {
  return Object.entries(fields).flatMap(([name, field]) => [name, ...optionNames(field.fields ?? field.items?.fields ?? {})])
}
