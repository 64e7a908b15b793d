// A grammar over bytes, and which bytes may come next. It is a pushdown automaton that is made deterministic as it is used: a state is the set of stacks
// that the bytes so far allow, stacks share their lower parts, and what follows a state is looked for once. No recursion: grammars are finite.

export type Node =
  | { readonly kind: 'empty' }
  /** [256] 1 for the bytes that it may be. */
  | { readonly kind: 'byte'; readonly allowed: Uint8Array }
  | { readonly kind: 'pair'; readonly first: Node; readonly rest: Node }
  | { readonly kind: 'choice'; readonly nodes: readonly Node[] }
  /** `node` is never empty. */
  | { readonly kind: 'repeat'; readonly node: Node; readonly min: number; readonly max: number }

export const EMPTY: Node = { kind: 'empty' }
/** What no text is. Whatever needs it is never either, so that a grammar has no dead ends. */
export const NEVER: Node = { kind: 'choice', nodes: [] }

export function sequence(...nodes: readonly Node[]): Node {
  if (nodes.includes(NEVER)) return NEVER
  const [last = EMPTY, ...before] = nodes.filter((node) => node !== EMPTY).reverse()
  return before.reduce<Node>((rest, first) => ({ kind: 'pair', first, rest }), last)
}

export function choice(...nodes: readonly Node[]): Node {
  const possible = nodes.filter((node) => node !== NEVER)
  if (possible.length < 2) return possible[0] ?? NEVER
  return { kind: 'choice', nodes: possible }
}

export function repeat(node: Node, min: number, max = Infinity): Node {
  if (max < min) return NEVER
  if (max === 0 || node === NEVER) return min === 0 ? EMPTY : NEVER
  return { kind: 'repeat', node, min, max }
}

export const optional = (node: Node): Node => choice(node, EMPTY)

/** One byte of these, given as pairs of the first and the last. */
export function bytes(...ranges: readonly (readonly [number, number])[]): Node {
  const allowed = new Uint8Array(256)
  for (const [from, to] of ranges) allowed.fill(1, from, to + 1)
  return { kind: 'byte', allowed }
}

/** One character of these, which are ASCII. */
export const oneOf = (characters: string): Node => bytes(...[...Buffer.from(characters)].map((byte) => [byte, byte] as const))

const SINGLE = Array.from({ length: 256 }, (_, byte) => bytes([byte, byte]))

export const literal = (text: string): Node => Buffer.from(text).reduceRight<Node>((rest, byte) => sequence(SINGLE[byte]!, rest), EMPTY)

/** A stack: what is to be read, then what is below. */
interface Stack {
  readonly id: number
  readonly node: Node
  readonly below: Stack | null
  /** The stacks one higher, so that each exists once. */
  readonly above: Map<Node, Stack>
}

export interface State {
  /** Each with a byte on top. */
  readonly stacks: readonly (Stack & { readonly node: { readonly kind: 'byte'; readonly allowed: Uint8Array } })[]
  /** Whether the text may end here. */
  readonly complete: boolean
  /** [256] null: no text goes on like that; undefined: not looked for yet. */
  readonly moves: (State | null | undefined)[]
}

export interface Grammar {
  readonly start: State
  move(state: State, byte: number): State | null
}

/** States that are kept; when there are more, all are made anew as they are met. */
const MAX_STATES = 1_024

export function openGrammar(root: Node): Grammar {
  const bottom: Stack = { id: 0, node: EMPTY, below: null, above: new Map() }
  const states = new Map<string, State>()
  let ids = 1

  function push(node: Node, below: Stack): Stack {
    let stack = below.above.get(node)
    if (!stack) below.above.set(node, (stack = { id: ids++, node, below, above: new Map() }))
    return stack
  }

  /** Takes the node apart until a byte is on top; `bottom` among them says that nothing need follow. */
  function expand(node: Node, below: Stack, found: Set<Stack>): void {
    if (node.kind === 'byte') found.add(push(node, below))
    else if (node.kind === 'pair') expand(node.first, push(node.rest, below), found)
    else if (node.kind === 'choice') for (const one of node.nodes) expand(one, below, found)
    else if (node.kind === 'repeat') {
      if (node.min === 0) expand(EMPTY, below, found)
      const more = onceLess(node)
      expand(node.node, more === EMPTY ? below : push(more, below), found)
    } else if (below === bottom) found.add(bottom)
    else expand(below.node, below.below!, found)
  }

  function stateOf(found: ReadonlySet<Stack>): State | null {
    if (found.size === 0) return null
    const sorted = [...found].sort((a, b) => a.id - b.id)
    const key = sorted.map(({ id }) => id).join()
    const known = states.get(key)
    if (known) return known
    if (states.size >= MAX_STATES) {
      states.clear()
      bottom.above.clear()
    }
    const state = { stacks: sorted.filter((stack) => stack !== bottom) as State['stacks'], complete: found.has(bottom), moves: [] }
    states.set(key, state)
    return state
  }

  function follow({ stacks }: State, byte: number): State | null {
    const found = new Set<Stack>()
    for (const { node, below } of stacks) if (node.allowed[byte]) expand(EMPTY, below!, found)
    return stateOf(found)
  }

  const first = new Set<Stack>()
  expand(root, bottom, first)
  return {
    start: stateOf(first) ?? { stacks: [], complete: false, moves: [] },
    move(state, byte) {
      const known = state.moves[byte]
      return known === undefined ? (state.moves[byte] = follow(state, byte)) : known
    },
  }
}

type Repeat = Extract<Node, { kind: 'repeat' }>

/** Made once for each, since stacks are told apart by their nodes. */
const less = new WeakMap<Repeat, Node>()

function onceLess(node: Repeat): Node {
  if (node.min === 0 && node.max === Infinity) return node
  let one = less.get(node)
  if (!one) less.set(node, (one = repeat(node.node, Math.max(0, node.min - 1), node.max - 1)))
  return one
}
