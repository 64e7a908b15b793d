// ${env:NAME}, ${NAME}, ${env:NAME:-default}, ${file:path}, ${yaml:value} and $$, as the Collector expands them.
// A value that is one expansion becomes what its text means as YAML, and keeps the text for options that
// take text. Inside a longer text the expansion's text is put in. What an expansion brings in is expanded again.

import type { Notes } from './problems.ts'
import { readEnv, readFile, splitUri, Unreadable, unsetVariable, unsupported, type Surroundings } from './sources.ts'
import { parseYaml, unknown, type Place, type Tree } from './tree.ts'

/** The Collector's limit: a variable that refers to itself ends here. */
const DEEPEST = 1_000

/** Expands every value below `root`. One that cannot be becomes unknown, and a problem says why. */
export function expand(root: Tree, surroundings: Surroundings, { problem, warning }: Notes): Tree {
  return expandTree(root, [], 0)

  function expandTree(tree: Tree, path: readonly string[], depth: number): Tree {
    switch (tree.kind) {
      case 'map': {
        const entries = [...tree.entries].map(
          ([key, { at, value }]) => [key, { at, value: expandTree(value, [...path, key], depth) }] as const,
        )
        return { ...tree, entries: new Map(entries) }
      }
      case 'list':
        return { ...tree, items: tree.items.map((item, i) => expandTree(item, [...path, String(i)], depth)) }
      case 'scalar':
        return typeof tree.value === 'string' ? expandScalar(tree.value, tree.at, path, depth) : tree
      case 'unknown':
        return tree
    }
  }

  function expandScalar(text: string, at: Place | undefined, path: readonly string[], depth: number): Tree {
    const unset = (name: string) => warning(path, unsetVariable(name), at)
    const expanded = (part: string) => expandText(part, depth + 1, unset)
    try {
      const uri = wholeUri(text)
      if (uri === undefined) return { kind: 'scalar', value: expanded(text), at }
      const { text: fetched, file } = bringIn(uri, depth, unset)
      const tree = meaning(fetched, file ?? at)
      if (tree.kind !== 'scalar') return { ...expandTree(tree, path, depth + 1), source: fetched }
      if (typeof tree.value !== 'string') return { ...tree, at, source: fetched }
      if (wholeUri(fetched) !== undefined) return expandScalar(fetched, at, path, depth + 1)
      return { ...tree, value: expanded(tree.value), source: expanded(fetched), at }
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      problem(path, error.message, at)
      return unknown(at)
    }
  }

  function expandText(text: string, depth: number, unset: (name: string) => void): string {
    const closes = closingBraces(text)
    let out = ''
    let i = 0
    while (i < text.length) {
      const close = closes.get(i)
      if (close === undefined) {
        out += text[i]
        i += text.startsWith('$$', i) ? 2 : 1
      } else {
        out += expandText(bringIn(text.slice(i + 2, close), depth, unset).text, depth + 1, unset)
        i = close + 1
      }
    }
    return out
  }

  function bringIn(uri: string, depth: number, unset: (name: string) => void): { text: string; file?: string } {
    if (depth > DEEPEST) throw new Unreadable('too many recursive expansions')
    const { scheme, opaque } = splitUri(uri, 'env')
    if (scheme === 'yaml') return { text: opaque }
    if (scheme === 'file') {
      const file = expandText(opaque, depth + 1, unset)
      return { text: readFile(file, surroundings), file }
    }
    if (scheme !== 'env') throw unsupported(scheme, uri)
    const [written, fallback] = splitDefault(opaque)
    const name = expandText(written, depth + 1, unset)
    return { text: readEnv(name, surroundings) ?? fallback ?? (unset(name), '') }
  }
}

/** What fetched text means as YAML. What is no YAML, e.g. a password, is text. */
function meaning(text: string, origin: string | Place | undefined): Tree {
  const { tree, flaws } = parseYaml(text, origin)
  return flaws.length > 0 ? { kind: 'scalar', value: text, noYaml: flaws[0] } : tree
}

/** The uri of a text that is a single expansion. */
function wholeUri(text: string): string | undefined {
  return text.startsWith('${') && closingBraces(text).get(0) === text.length - 1 ? text.slice(2, -1) : undefined
}

/** Splits `NAME:-default` at the first `:-` that is not inside a nested expansion. */
function splitDefault(opaque: string): [name: string, fallback?: string] {
  const closes = closingBraces(opaque)
  for (let i = 0; i < opaque.length; i++) {
    if (opaque.startsWith(':-', i)) return [opaque.slice(0, i), opaque.slice(i + 2)]
    i = closes.get(i) ?? i
  }
  return [opaque]
}

/** Position of each `${` and of the brace that closes it. One that nothing closes is text, and so is `$${`. */
function closingBraces(text: string): ReadonlyMap<number, number> {
  const open: number[] = []
  const closes = new Map<number, number>()
  for (let i = 0; i < text.length; i++) {
    if (text.startsWith('$$', i)) i++
    else if (text.startsWith('${', i)) open.push(i++)
    else if (text[i] === '}' && open.length > 0) closes.set(open.pop()!, i)
  }
  return closes
}
