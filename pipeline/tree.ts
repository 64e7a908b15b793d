// A configuration file as a tree that remembers where each value is written. Merging and expansion
// work on it, so that an error can still name its file, line and column.

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import type { Alias, Document, Pair, ParsedNode, YAMLMap } from 'yaml'

export interface Place {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** What a value is, and where; `at` is missing for what a command line flag gave. */
export type Tree = (Scalar | List | Mapping | Unknown) & {
  readonly at?: Place | undefined
  /** Where a whole value came from an expansion such as ${env:X}: its text. */
  readonly source?: string
  /** Where that text is no YAML: why. */
  readonly noYaml?: Flaw | undefined
}
export interface Scalar {
  readonly kind: 'scalar'
  readonly value: string | number | boolean | null
}
export interface List {
  readonly kind: 'list'
  readonly items: readonly Tree[]
}
export interface Mapping {
  readonly kind: 'map'
  readonly entries: ReadonlyMap<string, Entry>
}
/** A value that could not be found out; why is reported already. */
export interface Unknown {
  readonly kind: 'unknown'
}
export interface Entry {
  /** Of the key. */
  readonly at?: Place | undefined
  readonly value: Tree
}

export interface Flaw {
  readonly message: string
  readonly at?: Place | undefined
}

/** Values that aliases may repeat. Beyond it a file of a few lines could fill the memory. */
const ALIASED_VALUES = 10_000

/** Reads YAML. `origin`: the name of the file, or the one place that all of it comes from, or neither. */
export function parseYaml(text: string, origin?: string | Place): { tree: Tree; flaws: Flaw[] } {
  const lines = new LineCounter()
  // Keys are checked below: the library's own check does not say which key is meant.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const flaws: Flaw[] = [...document.errors, ...document.warnings].map((e) => ({ message: flawText(e), at: place(e.pos[0]) }))
  const open = new Set<unknown>()
  let aliased = 0

  return { tree: flaws.length > 0 || !document.contents ? { kind: 'scalar', value: null } : read(document.contents), flaws }

  function place(offset: number): Place | undefined {
    if (typeof origin !== 'string') return origin
    const { line, col } = lines.linePos(offset)
    return { file: origin, line, column: col }
  }

  function read(node: ParsedNode | null): Tree {
    const at = place(node?.range[0] ?? 0)
    if (open.size > 0 && ++aliased > ALIASED_VALUES) {
      if (aliased === ALIASED_VALUES + 1) flaws.push({ message: `aliases repeat more than ${ALIASED_VALUES} values`, at })
      return unknown(at)
    }
    if (isAlias(node)) return readAlias(node, at)
    if (isMap(node)) return { kind: 'map', entries: readEntries(node), at }
    if (isSeq(node)) return { kind: 'list', items: node.items.map((item) => read(item)), at }
    return { kind: 'scalar', value: isScalar(node) ? plainValue(node.value) : null, at }
  }

  function readAlias(alias: Alias.Parsed, at: Place | undefined): Tree {
    const target = alias.resolve(document as Document) as ParsedNode | undefined
    if (!target) flaws.push({ message: `alias "${alias.source}" has no anchor`, at })
    else if (open.has(target)) flaws.push({ message: `alias "${alias.source}" stands inside its own anchor`, at })
    else {
      open.add(target)
      const tree = read(target)
      open.delete(target)
      return tree
    }
    return unknown(at)
  }

  function readEntries(map: YAMLMap.Parsed): Map<string, Entry> {
    const entries = new Map<string, Entry>()
    const bases = map.items.filter(isMergeKey)
    for (const pair of map.items) {
      if (bases.includes(pair)) continue
      const at = place(pair.key.range[0])
      if (!isScalar(pair.key)) flaws.push({ message: 'a key must be a single value', at })
      const key = isScalar(pair.key) ? (pair.key.source ?? String(pair.key.value)) : ''
      if (entries.has(key)) flaws.push({ message: `key "${key}" is set twice in one map`, at })
      entries.set(key, { at, value: read(pair.value) })
    }
    for (const base of bases) addBase(entries, read(base.value), place(base.key.range[0]))
    return entries
  }

  /** `<<: *base`: what the map does not say itself, it has from its base. */
  function addBase(entries: Map<string, Entry>, base: Tree, at: Place | undefined): void {
    if (base.kind === 'list') for (const item of base.items) addBase(entries, item, at)
    else if (base.kind === 'map') for (const [key, entry] of base.entries) if (!entries.has(key)) entries.set(key, entry)
    if (base.kind === 'scalar') flaws.push({ message: '<< must be given a map, e.g. an alias of one', at })
  }
}

/** Where the value at `path` is written, or the nearest thing above it. */
export function placeOf(entry: Entry, path: readonly string[]): Place | undefined {
  const [step, ...rest] = path
  if (step === undefined) return entry.at ?? entry.value.at
  const { value } = entry
  const next = value.kind === 'map' ? value.entries.get(step) : value.kind === 'list' ? listEntry(value, step) : undefined
  return next ? placeOf(next, rest) : placeOf(entry, [])
}

export function entriesOf(tree: Tree): ReadonlyMap<string, Entry> {
  return tree.kind === 'map' ? tree.entries : new Map()
}

/** Whether everything in the tree could be found out. */
export function isKnown(tree: Tree): boolean {
  if (tree.kind === 'map') return [...tree.entries.values()].every(({ value }) => isKnown(value))
  return tree.kind === 'list' ? tree.items.every(isKnown) : tree.kind !== 'unknown'
}

export const isNull = (tree: Tree) => tree.kind === 'scalar' && tree.value === null
export const emptyMap: Tree = { kind: 'map', entries: new Map() }
export const unknown = (at: Place | undefined): Tree => ({ kind: 'unknown', at })

function listEntry(list: List, position: string): Entry | undefined {
  const item = list.items[Number(position)]
  return item && { at: item.at, value: item }
}

function isMergeKey({ key }: Pair<ParsedNode, ParsedNode | null>): boolean {
  return isScalar(key) && key.value === '<<' && key.type === 'PLAIN'
}

/** Numbers too large for a double, and what else YAML has, stay text. */
function plainValue(value: unknown): Scalar['value'] {
  return value === null || typeof value === 'number' || typeof value === 'boolean' ? value : String(value)
}

function flawText({ code, message }: { code: string; message: string }): string {
  return code === 'MULTIPLE_DOCS' ? 'a configuration is one document, and here a second one begins' : message
}
