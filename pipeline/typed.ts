// Gives a tree the types its schema asks for: what an expansion brought in is text for an option that
// takes text, and what YAML makes of that text for any other.

import { UNKNOWN, type Field } from './schema.ts'
import type { Notes } from './problems.ts'
import type { Entry, Tree } from './tree.ts'

type Shape = Pick<Field<any>, 'text' | 'fields' | 'items'>

/** @returns undefined for an expansion without a value: it counts as not written */
export function plain(tree: Tree, shape: Shape = {}): unknown {
  if (tree.kind === 'unknown') return UNKNOWN
  if (shape.text && tree.source !== undefined) return tree.source
  if (tree.kind === 'list') return tree.items.map((item) => plain(item, shape.items) ?? null)
  if (tree.kind === 'map') return Object.fromEntries([...tree.entries].map(([key, { value }]) => [key, plain(value, below(shape, key))]))
  return tree.value === null && tree.source !== undefined ? undefined : tree.value
}

/** Options that are written under an old name, under their present one. */
export function rename(tree: Tree, shape: Shape, notes: Notes, path: readonly string[] = []): Tree {
  if (tree.kind === 'list') {
    return { ...tree, items: tree.items.map((item, i) => rename(item, shape.items ?? {}, notes, [...path, String(i)])) }
  }
  if (tree.kind !== 'map') return tree
  const entries = new Map<string, Entry>()
  for (const [key, entry] of tree.entries) {
    const name = presentName(shape, key)
    if (name !== key && tree.entries.has(name)) notes.problem([...path, key], `is the old name of "${name}", which is set too`, entry.at)
    else if (name !== key) notes.warning([...path, key], `"${key}" is an old name of "${name}"`, entry.at)
    entries.set(name, { at: entry.at, value: rename(entry.value, below(shape, name), notes, [...path, name]) })
  }
  return { ...tree, entries }
}

function presentName({ fields = {} }: Shape, key: string): string {
  return Object.keys(fields).find((name) => fields[name]!.aliases?.includes(key)) ?? key
}

function below(shape: Shape, key: string): Shape {
  return (shape.fields && Object.hasOwn(shape.fields, key) ? shape.fields[key] : shape.items) ?? {}
}
