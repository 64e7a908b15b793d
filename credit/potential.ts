// AIR's potential: how promising a state is, told from what the tools did before it.
//   phi = c * (1 - e^(-S/3)) / (1 + 0.1 F)
// S counts the distinct calls of tools (name and arguments) that went well, F the errors that the policy made. It
// is a count that saturates and starts at 0: a share of successes in its place kept 6 of 8 seeds from learning,
// and counting repeats kept all 8 (reference measurements of the toy agent).

import { forward, type Causality } from '../data/causality.ts'
import type { AirClass } from '../data/rollout.ts'

export interface ToolOutcome {
  /** Node of the tool in the span tree. */
  readonly node: number
  /** Equal for the same name and arguments. */
  readonly key: string | number
  readonly air_class: AirClass
}

export const phi = (successes: number, errors: number, c: number): number => (c * (1 - Math.exp(-successes / 3))) / (1 + 0.1 * errors)

/** The potential of every span of the tree at its beginning; only tools that happened before it count. */
export function potential(causality: Causality, tools: readonly ToolOutcome[], c: number): Float64Array {
  const { tree, forks, first, byStart } = causality
  const ownErrors = new Int32Array(tree.count)
  const ownKeys = new Array<Keys>(tree.count).fill(NONE)
  const numbers = new Map<ToolOutcome['key'], number>()
  for (const { node, key, air_class } of tools) {
    if (air_class === 'policy_error') ownErrors[node]!++
    if (air_class !== 'ok') continue
    if (!numbers.has(key)) numbers.set(key, numbers.size)
    ownKeys[node] = union(ownKeys[node]!, new Set([numbers.get(key)!]))
  }

  // Of each span with everything below it.
  const errors = ownErrors.slice()
  const keys = ownKeys.slice()
  for (let f = forks.length - 1; f > 0; f--) {
    const fork = forks[f]!
    for (let i = first[fork]!; i < first[fork + 1]!; i++) {
      const branch = byStart[i]!
      if (branch === fork) continue
      errors[fork]! += errors[branch]!
      keys[fork] = union(keys[fork]!, keys[branch]!)
    }
  }

  // Of everything that happened before each span. A set grows until spans below a branch are to start from it.
  const isFork = new Uint8Array(tree.count + 1)
  for (const fork of forks) isFork[fork] = 1
  const phis = new Float64Array(tree.count)
  const errorsBefore = new Int32Array(tree.count + 1)
  const keysBefore = new Array<Keys>(tree.count + 1).fill(NONE)
  for (const fork of forks) {
    let errorsSoFar = errorsBefore[fork]!
    let keysSoFar = keysBefore[fork]!
    let growing: Set<number> | undefined
    forward(
      causality,
      fork,
      (before) => {
        errorsSoFar += (before === fork ? ownErrors : errors)[before]!
        for (const key of (before === fork ? ownKeys : keys)[before]!) {
          if (keysSoFar.has(key) || keysSoFar.size >= SATURATED) continue
          keysSoFar = growing ??= new Set(keysSoFar)
          growing.add(key)
        }
      },
      (branch) => {
        phis[branch] = phi(keysSoFar.size, errorsSoFar, c)
        if (branch === fork || !isFork[branch]) return
        errorsBefore[branch] = errorsSoFar
        keysBefore[branch] = keysSoFar
        growing = undefined
      },
    )
  }
  return phis
}

/** Never changed once made, so that spans share them. */
type Keys = ReadonlySet<number>

const NONE: Keys = new Set()

/** From here on e^(-S/3) is lost to rounding beside 1: sets need not grow, which keeps all of this linear. */
const SATURATED = 128

function union(a: Keys, b: Keys): Keys {
  if (a === b || b.size === 0 || a.size >= SATURATED) return a
  if (a.size === 0 || b.size >= SATURATED) return b
  const both = new Set([...a, ...b])
  return both.size === a.size ? a : both
}
