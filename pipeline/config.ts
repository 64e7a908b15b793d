// From configuration sources to a plan that the engine can run, or to every problem that stands in the way:
// read and merge the sources, expand variables, read each component's options by its schema, check the pipelines.

import type { Component, Kind, Registry, Signal } from './component.ts'
import { expand } from './expand.ts'
import { merge } from './merge.ts'
import { formatProblems, inOrder, noteIn, type ConfigProblem, type Notes } from './problems.ts'
import { didYouMean } from './schema.ts'
import { readService, type Telemetry } from './service.ts'
import { readSource, splitUri, Unreadable, unsetVariable, type Surroundings } from './sources.ts'
import { emptyMap, entriesOf, isNull, placeOf, type Tree } from './tree.ts'
import { readSection, working } from './units.ts'

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
  /** Ids, each once; a receiver or an exporter may be a connector. */
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

export interface Loaded {
  readonly problems: readonly ConfigProblem[]
  /** One line each, with its place. */
  readonly warnings: readonly string[]
  /** Absent when there are problems. */
  readonly plan?: Plan
}

export interface LoadOptions extends Surroundings {
  readonly registry: Registry
}

export type Section = keyof Registry

const SECTIONS = ['receivers', 'processors', 'exporters', 'connectors', 'extensions', 'service']

/** Loads what `--config` names, in order: `[file:]path`, `env:NAME` or `yaml:a::b: value`, the last of which is also what `--set a.b=value` means. */
export async function loadConfig(sources: readonly string[], options: LoadOptions): Promise<Loaded> {
  const problems: ConfigProblem[] = []
  const warnings: ConfigProblem[] = []
  const notes = { problem: noteIn(problems), warning: noteIn(warnings) }

  const merged = readSources(sources, options, notes)
  // Where a file could not be read, all else would be guesswork.
  const plan = problems.length === 0 ? readPlan(expand(merged, options, notes), options.registry, notes) : undefined

  const files = sources.map((source) => splitUri(source, 'file').opaque)
  return {
    problems: inOrder(problems, files),
    warnings: formatProblems(inOrder(warnings, files)),
    ...(plan && problems.length === 0 && { plan }),
  }
}

function readSources(sources: readonly string[], surroundings: Surroundings, { problem, warning }: Notes): Tree {
  let merged = emptyMap
  if (sources.length === 0) problem([], 'at least one config flag must be provided, e.g. --config config/pipeline.yaml')
  for (const source of sources) {
    try {
      const { tree, flaws } = readSource(source, surroundings, (name) => warning([], unsetVariable(name)))
      for (const { message, at } of flaws) problem([], message, at)
      if (tree.kind !== 'map' && !isNull(tree)) problem([], 'a configuration must be a map of sections', tree.at)
      merged = merge(merged, tree, (path, at) => warning(path, 'has no value here, which erases what an earlier source says of it', at))
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      problem([], error.message)
    }
  }
  return merged
}

function readPlan(root: Tree, registry: Registry, { problem, warning }: Notes): Plan {
  const entries = entriesOf(root)
  const notes: Notes = { problem: (path, message, at) => problem(path, message, at ?? placeOf({ value: root }, path)), warning }
  for (const key of entries.keys()) if (!SECTIONS.includes(key)) notes.problem([key], `unknown section${didYouMean(key, SECTIONS)}`)
  const units = {
    receivers: readSection('receivers', entries.get('receivers'), registry.receivers, notes),
    processors: readSection('processors', entries.get('processors'), registry.processors, notes),
    exporters: readSection('exporters', entries.get('exporters'), registry.exporters, notes),
    connectors: readSection('connectors', entries.get('connectors'), registry.connectors, notes),
    extensions: readSection('extensions', entries.get('extensions'), registry.extensions, notes),
  }
  const service = readService(entries.get('service'), units, notes.problem)
  return {
    receivers: working(units.receivers),
    processors: working(units.processors),
    exporters: working(units.exporters),
    connectors: working(units.connectors),
    extensions: working(units.extensions),
    service,
  }
}
