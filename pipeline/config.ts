// From configuration sources to a plan that the engine can run, or to every problem that stands in the way.

import type { Component, Kind, Registry, Signal } from './component.ts'
import type { Telemetry } from './service.ts'

export type { Telemetry } from './service.ts'

/** One configured component. */
export interface Unit<K extends Kind = Kind> {
  /** `type[/name]`, as written. */
  readonly id: string
  readonly component: Component<K>
  /** As the component's `config` schema reads it. */
  readonly config: any
}

export interface PipelinePlan {
  /** E.g. `traces` or `traces/staging`. */
  readonly id: string
  readonly signal: Signal
  /** Ids; a receiver or an exporter may be a connector. */
  readonly receivers: readonly string[]
  readonly processors: readonly string[]
  readonly exporters: readonly string[]
}

export interface Plan {
  readonly receivers: ReadonlyMap<string, Unit<'receiver'>>
  readonly processors: ReadonlyMap<string, Unit<'processor'>>
  readonly exporters: ReadonlyMap<string, Unit<'exporter'>>
  readonly connectors: ReadonlyMap<string, Unit<'connector'>>
  readonly extensions: ReadonlyMap<string, Unit<'extension'>>
  readonly service: {
    /** Ids, in the order in which they start. */
    readonly extensions: readonly string[]
    readonly pipelines: readonly PipelinePlan[]
    readonly telemetry: Telemetry
    /** Milliseconds. */
    readonly shutdown_timeout: number
  }
}

/** Something wrong with the configuration, and where it is written. */
export interface ConfigProblem {
  /** Joined by `::`; empty for a problem of a whole source. */
  readonly path: string
  readonly message: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
}

export interface Loaded {
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly string[]
  /** Absent when there are problems. */
  readonly plan?: Plan
}

export interface LoadOptions {
  readonly registry: Registry
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

/** Loads what `--config` and `--set` name, in order; `--set a.b=c` is the source `yaml:a::b: c`. */
export async function loadConfig(_sources: readonly string[], _options: LoadOptions): Promise<Loaded> {
  return { problems: [], warnings: [] }
}
