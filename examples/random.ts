// Chance that can be repeated: the same seed gives the same tasks, demonstrations and databases on every machine.

export interface Random {
  /** From 0 to below 1. */
  next(): number
  chance(probability: number): boolean
  /** From `low` to `high`, both included. */
  integer(low: number, high: number): number
  pick<T>(from: readonly T[]): T
  shuffle<T>(items: readonly T[]): T[]
}

/** Weyl sequence through a 32-bit mixer (splitmix32). */
export function seeded(seed: number): Random {
  let state = seed | 0
  const next = () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
  const integer = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return {
    next,
    chance: (probability) => next() < probability,
    integer,
    pick: (from) => {
      const picked = from[integer(0, from.length - 1)]
      if (picked === undefined) throw new Error('nothing to pick from')
      return picked
    },
    shuffle: (items) => {
      const shuffled = [...items]
      for (let i = shuffled.length - 1; i > 0; i--) {
        const j = integer(0, i)
        ;[shuffled[i], shuffled[j]] = [shuffled[j] as (typeof items)[number], shuffled[i] as (typeof items)[number]]
      }
      return shuffled
    },
  }
}
