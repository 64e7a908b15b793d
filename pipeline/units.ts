// Reads the five sections of components: each id, its component, its options.

import type { Component, Kind } from './component.ts'
import type { Section, Unit } from './config.ts'
import type { Note, Notes } from './problems.ts'
import { parseId } from './ids.ts'
import { nearMiss, readConfig, type Problem } from './schema.ts'
import { emptyMap, entriesOf, isKnown, placeOf, type Entry, type Tree } from './tree.ts'
import { plain, rename } from './typed.ts'

/** Units by id. Null: broken, or does nothing. */
export type Units<K extends Kind = Kind> = ReadonlyMap<string, Unit<K> | null>

/** Components of the Collector that have nothing to do here. A configuration may keep them. */
const IDLE: Partial<Record<Section, Readonly<Record<string, string>>>> = {
  processors: { batch: 'does nothing here: exporters make batches themselves, see sending_queue::batch' },
}

/** @returns undefined where the section's content could not be found out, so that nothing can be said of what it holds */
export function readSection<K extends Kind>(
  section: Section,
  entry: Entry | undefined,
  components: readonly Component<K>[],
  notes: Notes,
): Units<K> | undefined {
  const value = entry?.value ?? emptyMap
  if (value.kind === 'unknown') return undefined
  if (value.kind !== 'map' && plain(value) != null) {
    notes.problem([section], `must be a map from ids to options${reason(value)}`, entry?.at)
    return undefined
  }
  const units = new Map<string, Unit<K> | null>()
  for (const [written, component] of entriesOf(value)) {
    const id = parseId(written)
    if (typeof id === 'string') notes.problem([section], id, component.at)
    else if (units.has(id.id)) notes.problem([section], `duplicate name "${id.id}" after trimming spaces`, component.at)
    else units.set(id.id, readUnit(section, id, component, components, notes))
  }
  return units
}

/** Those that can run. */
export function working<K extends Kind>(units: Units<K> | undefined): ReadonlyMap<string, Unit<K>> {
  return new Map([...(units ?? [])].flatMap(([id, unit]) => (unit ? [[id, unit]] : [])))
}

function readUnit<K extends Kind>(
  section: Section,
  { id, type }: { id: string; type: string },
  entry: Entry,
  components: readonly Component<K>[],
  notes: Notes,
): Unit<K> | null {
  const path = [section, id]
  const component = components.find((c) => c.type === type) ?? components.find((c) => c.aliases?.includes(type))
  const idle = IDLE[section]?.[type]
  if (!component) {
    if (idle !== undefined) notes.warning(path, idle, entry.at)
    else notes.problem(path, unknownType(id, type, components), entry.at)
    return null
  }
  if (component.type !== type) notes.warning(path, `"${type}" alias is deprecated; use "${component.type}" instead`, entry.at)
  return { id, component, config: readOptions(component, path, entry, notes) }
}

function readOptions(component: Component, path: readonly string[], entry: Entry, { problem, warning }: Notes): unknown {
  const shape = { fields: component.config }
  const below =
    (note: Note): Note =>
    (rest, message, at) =>
      note([...path, ...rest], message, at)
  const value = rename(entry.value, shape, { problem: below(problem), warning: below(warning) })
  if (value.kind === 'unknown') return {}
  if (value.noYaml) {
    problem(path, `must be a map of options${reason(value)}`, entry.at)
    return {}
  }
  const problems: Problem[] = []
  const config = readConfig(component.config, plain(value, shape), path, problems)
  if (problems.length === 0 && isKnown(value)) {
    for (const found of component.check?.(config) ?? []) problems.push({ path: [...path, ...(found.path ?? [])], message: found.message })
  }
  for (const found of problems) problem(found.path, found.message, placeOf({ ...entry, value }, found.path.slice(path.length)))
  return config
}

/** Why a map that an expansion should have brought in is none. */
function reason({ noYaml }: Tree): string {
  if (!noYaml) return ''
  const place = noYaml.at ? ` at ${noYaml.at.file}:${noYaml.at.line}` : ''
  return `, and what was brought in is no YAML${place}: ${noYaml.message}`
}

function unknownType(id: string, type: string, components: readonly Component[]): string {
  const valid = components.flatMap((c) => [c.type, ...(c.aliases ?? [])])
  return `unknown type: "${type}" for id: "${id}" (valid values: [${valid.join(' ')}])${nearMiss(type, valid)}`
}
