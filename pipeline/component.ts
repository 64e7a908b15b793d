// The component contract. A component is one object in one file: what it is called, what it does,
// which options it takes, and how to make a running instance.

import type { Rollout } from '../data/rollout.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import type { Config, Fields, Role } from './schema.ts'

export type Signal = 'traces' | 'logs' | 'rollouts'

/** What a pipeline of each signal carries. Items are shared between branches: never change one. */
export interface Items {
  traces: SpanBatch
  logs: SpanBatch
  rollouts: Rollout
}
export type Item<S extends Signal = Signal> = Items[S]

/**
 * Passes items on. Resolves when everything downstream has taken them for good; rejects with
 * Permanent when the same items would fail again, with any other error when a retry may help. Batches may be read until
 * then; who keeps one longer keeps a copy (`detached`), for a receiver uses its memory again.
 */
export type Consumer<S extends Signal = Signal> = (items: readonly Item<S>[]) => Promise<void>

/** The next component of each signal whose pipelines name this one; absent where none does. */
export interface Outputs {
  traces?: Consumer<'traces'>
  logs?: Consumer<'logs'>
  rollouts?: Consumer<'rollouts'>
}

export interface Receiver {
  /** Resolves once listening; rejects when it cannot (the run then ends with that message). */
  start(next: Outputs): Promise<void>
  /** Stops accepting, then resolves when the requests in flight are answered. */
  shutdown?(): Promise<void>
}

export interface Processor {
  start?(): Promise<void>
  /** Returns the item to pass on, or null to drop it (count why). */
  process(item: any): any
  shutdown?(): Promise<void>
}

export interface Exporter {
  start?(): Promise<void>
  /** Resolves when the items are durable. Throw Permanent to skip retries. `abort` fires when the option `timeout` has passed: end then, for you are waited for. */
  export(items: readonly any[], signal: Signal, abort: AbortSignal): Promise<void>
  shutdown?(): Promise<void>
}

export interface Connector {
  start(next: Outputs): Promise<void>
  /** Resolves when the items are safe: stored, or taken by the pipelines behind it. */
  consume(items: readonly any[], signal: Signal): Promise<void>
  shutdown?(): Promise<void>
}

export interface Extension {
  start?(): Promise<void>
  /** Called when every pipeline runs, and first of all when shutdown begins. */
  ready?(): void
  notReady?(): void
  shutdown?(): Promise<void>
  /** What `context.extension(id)` gives to other components. */
  api?: unknown
}

export interface Instances {
  receiver: Receiver
  processor: Processor
  exporter: Exporter
  connector: Connector
  extension: Extension
}
export type Kind = keyof Instances

/** What the engine hands to every instance. */
export interface Context {
  /** As written in pipeline.yaml, e.g. `clickhouse` or `clickhouse/staging`. */
  readonly id: string
  readonly kind: Kind
  /** The pipeline's signal, for processors. */
  readonly signal?: Signal
  readonly log: Log
  /** Adds to a counter on /metrics. The component's own labels are already on it; `name` is without the `otelcol_` prefix and `_total`. */
  count(name: string, n?: number, labels?: Record<string, string>): void
  /** The same for what is counted with every request: the counter is looked up once. */
  counter(name: string, labels?: Record<string, string>): (n: number) => void
  /** A gauge on /metrics, read when scraped. */
  gauge(name: string, read: () => number, labels?: Record<string, string>): void
  /** The api of an extension that service::extensions lists. Throws, naming what to add, when there is none. */
  extension<T>(id: string): T
  /** Says what keeps this component from working (null: nothing). Health and /status show it. */
  health(problem: string | null): void
  /** What every component last said of its health, for health_check. */
  problems(): readonly { readonly id: string; readonly kind: Kind; readonly problem: string }[]
}

export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void
  info(message: string, fields?: Record<string, unknown>): void
  warn(message: string, fields?: Record<string, unknown>): void
  error(message: string, fields?: Record<string, unknown>): void
}

export interface Component<K extends Kind = Kind, F extends Fields = any> {
  readonly kind: K
  readonly type: string
  /** One sentence for the docs page and `leyden components`. */
  readonly summary: string
  /** Which pipelines it can stand in. For a connector: the signals it takes; `to` says what it gives. */
  readonly signals: readonly Signal[]
  readonly to?: readonly Signal[]
  /** Old or common names that still work, with a warning. */
  readonly aliases?: readonly string[]
  /** For a connector that shares nothing: the option naming the extension that only one of its type may use. */
  readonly soleUserOf?: string
  /** For an extension: what other components may name it for. */
  readonly role?: Role
  readonly config: F
  /** What the options' own types cannot say. Each text is reported at the component's place, or at `path` below it. */
  check?(config: Config<F>): readonly { readonly path?: readonly string[]; readonly message: string }[]
  create(config: Config<F>, context: Context): Instances[K]
}

type Definition<K extends Kind, F extends Fields> = Omit<Component<K, F>, 'kind'>

export const receiver = <F extends Fields>(d: Definition<'receiver', F>): Component<'receiver', F> => ({ kind: 'receiver', ...d })
export const processor = <F extends Fields>(d: Definition<'processor', F>): Component<'processor', F> => ({ kind: 'processor', ...d })
export const exporter = <F extends Fields>(d: Definition<'exporter', F>): Component<'exporter', F> => ({ kind: 'exporter', ...d })
export const connector = <F extends Fields>(d: Definition<'connector', F>): Component<'connector', F> => ({ kind: 'connector', ...d })
export const extension = <F extends Fields>(d: Omit<Definition<'extension', F>, 'signals'>): Component<'extension', F> => ({
  kind: 'extension',
  signals: [],
  ...d,
})

/** The catalogue of one Leyden: every component of every kind, as cli/ wires it. */
export interface Registry {
  readonly receivers: readonly Component<'receiver'>[]
  readonly processors: readonly Component<'processor'>[]
  readonly exporters: readonly Component<'exporter'>[]
  readonly connectors: readonly Component<'connector'>[]
  readonly extensions: readonly Component<'extension'>[]
}

/** A failure that the same input will always cause. Anything else is retried. */
export class Permanent extends Error {
  override name = 'Permanent'
}

/** What is made of items alone, as rows and lines are: an error in it would come again with the same items. */
export function permanently<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw new Permanent((error as Error).message, { cause: error })
  }
}

/** Not now: memory is short, a queue is full, the store is away. Receivers answer UNAVAILABLE or 503 with the delay. */
export class Refused extends Error {
  override name = 'Refused'
  readonly retryAfterMs: number
  constructor(message: string, retryAfterMs = 1_000, options?: ErrorOptions) {
    super(message, options)
    this.retryAfterMs = retryAfterMs
  }
}
