// Memory for messages. Fresh buffers of a megabyte cost page faults and garbage collection, more than reading the message does, so
// they are reused; all that is lent out or kept stays within one budget.

import { giveMemory, takeMemory } from '../data/shared_memory.ts'
import { Refused } from './component.ts'

const SMALLEST = 4_096

/** When the budget is used up, `take` and `reserve` throw Refused. */
export interface Pool {
  /** A buffer of at least so many bytes. */
  take(bytes: number): Buffer
  give(buffer: Buffer): void
  /** For memory that somebody else allocates, such as zlib. */
  reserve(bytes: number): void
  release(bytes: number): void
  used(): number
  /**
   * Whether more than half of the budget would be left beside so many bytes. Whoever announces much and sends little must not take memory from
   * the others: past half of it, only what has come is to count.
   */
  isHalfFree(bytes: number): boolean
  /** Frees the buffers that nobody has needed since the last trim. */
  trim(): void
}

/** @param limited is told each time that the budget is used up */
export function createPool(budget: number, limited: () => void): Pool {
  const shelves = new Map<number, Shelf>()
  let used = 0
  let kept = 0

  function reserve(bytes: number): void {
    if (used + bytes > budget) {
      limited()
      throw new Refused('no memory for more messages at the moment')
    }
    if (used + kept + bytes > budget) for (const shelf of shelves.values()) drop(shelf, shelf.free.length)
    used += bytes
  }

  function drop(shelf: Shelf, count: number): void {
    kept -= count * shelf.size
    shelf.free.splice(shelf.free.length - count).forEach(giveMemory)
    shelf.idle = Math.min(shelf.idle, shelf.free.length)
  }

  function shelfOf(size: number): Shelf {
    let shelf = shelves.get(size)
    if (!shelf) shelves.set(size, (shelf = { size, free: [], idle: 0 }))
    return shelf
  }

  return {
    take(bytes) {
      const size = sizeClass(bytes)
      const shelf = shelfOf(size)
      const buffer = shelf.free.pop()
      if (buffer) {
        kept -= size
        used += size
        shelf.idle = Math.min(shelf.idle, shelf.free.length)
        return buffer
      }
      reserve(size)
      return takeMemory(size)
    },
    give(buffer) {
      used -= buffer.length
      kept += buffer.length
      shelfOf(buffer.length).free.push(buffer)
    },
    reserve,
    release(bytes) {
      used -= bytes
    },
    used: () => used,
    isHalfFree: (bytes) => used + bytes <= budget / 2,
    trim() {
      for (const shelf of shelves.values()) {
        drop(shelf, shelf.idle)
        shelf.idle = shelf.free.length
      }
    },
  }
}

interface Shelf {
  readonly size: number
  readonly free: Buffer[]
  /** The fewest that lay here since the last trim. */
  idle: number
}

/** Four sizes to each power of two, so at most a quarter is wasted. */
function sizeClass(bytes: number): number {
  if (bytes <= SMALLEST) return SMALLEST
  const step = 2 ** (29 - Math.clz32(bytes - 1))
  return Math.ceil(bytes / step) * step
}
