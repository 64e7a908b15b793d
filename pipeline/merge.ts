// Joins configuration sources: maps at every depth, anything else the later one wins.

import { entriesOf, isNull, type Entry, type Place, type Tree } from './tree.ts'

/** A later key without a value erases an earlier map: a well-known trap, so `erased` gets to know. */
export function merge(earlier: Tree, later: Tree, erased?: (path: readonly string[], at: Place | undefined) => void): Tree {
  return mergeEntries({ value: earlier }, { value: later }, []).value

  function mergeEntries(before: Entry, after: Entry, path: readonly string[]): Entry {
    if (before.value.kind === 'map' && after.value.kind === 'map') {
      const entries = new Map(before.value.entries)
      for (const [key, entry] of after.value.entries) {
        const known = entries.get(key)
        entries.set(key, known ? mergeEntries(known, entry, [...path, key]) : entry)
      }
      return { at: before.at, value: { ...before.value, entries } }
    }
    if (path.length === 0 && isNull(after.value)) return before
    if (isNull(after.value) && entriesOf(before.value).size > 0) erased?.(path, after.at)
    return after
  }
}
