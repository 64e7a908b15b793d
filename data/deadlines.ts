// Things to be looked at when their times come: a binary heap, the earliest first.

export interface Deadlines<T> {
  add(time: number, what: T): void
  /** Takes out the earliest whose time has come; undefined where there is none. */
  next(now: number): T | undefined
}

export function deadlines<T>(): Deadlines<T> {
  const times: number[] = []
  const things: T[] = []

  function put(at: number, time: number, thing: T): void {
    times[at] = time
    things[at] = thing
  }

  function add(time: number, thing: T): void {
    let at = times.length
    for (let parent = (at - 1) >> 1; at > 0 && times[parent]! > time; parent = (at - 1) >> 1) {
      put(at, times[parent]!, things[parent]!)
      at = parent
    }
    put(at, time, thing)
  }

  function next(now: number): T | undefined {
    if (times.length === 0 || times[0]! > now) return undefined
    const first = things[0]!
    const time = times.pop()!
    const thing = things.pop()!
    if (times.length > 0) sink(time, thing)
    return first
  }

  /** From the top, which is free, to where it belongs. */
  function sink(time: number, thing: T): void {
    let at = 0
    for (let child = 1; child < times.length; child = 2 * at + 1) {
      if (child + 1 < times.length && times[child + 1]! < times[child]!) child++
      if (times[child]! >= time) break
      put(at, times[child]!, things[child]!)
      at = child
    }
    put(at, time, thing)
  }

  return { add, next }
}
