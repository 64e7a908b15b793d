// The open calls of one connection, by their streams' ids. Ids only grow, so a call nearly always has the place to itself that its id gives
// it in a ring; a Map would be asked three times a call, and be made anew each time that it has grown.

import type { Call } from './call.ts'

export interface Streams {
  size(): number
  get(id: number): Call | undefined
  add(call: Call): void
  /** Whether it was there. */
  delete(call: Call): boolean
  forEach(visit: (call: Call) => void): void
}

const PLACES = 256

export function createStreams(): Streams {
  let ring: (Call | undefined)[] = []
  /** Whose place was taken. */
  const others = new Map<number, Call>()
  let size = 0

  const placeOf = (id: number): number => (id >>> 1) & (PLACES - 1)

  return {
    size: () => size,
    get(id) {
      const call = ring[placeOf(id)]
      return call?.id === id ? call : others.size > 0 ? others.get(id) : undefined
    },
    add(call) {
      if (ring.length === 0) ring = Array<Call | undefined>(PLACES).fill(undefined)
      const place = placeOf(call.id)
      if (ring[place]) others.set(call.id, call)
      else ring[place] = call
      size++
    },
    delete(call) {
      const place = placeOf(call.id)
      if (ring[place] === call) ring[place] = undefined
      else if (others.get(call.id) !== call || !others.delete(call.id)) return false
      size--
      return true
    },
    forEach(visit) {
      if (size === 0) return
      for (const call of ring) if (call) visit(call)
      others.forEach(visit)
    },
  }
}
