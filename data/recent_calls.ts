// The model calls that came last, each found by its response's id. A third of all spans is one: none of them becomes an object.

/** What an instrumentation says of a model call. */
export interface CallRecord {
  /** By responseKey(). */
  readonly response: number
  /** Name of the instrumentation. */
  readonly scope: string
  /** Nanoseconds since the epoch, as exact as a double has them. */
  readonly start: number
  readonly end: number
}

/** 53 bits of a response's id: two of ten thousand are the same once in a hundred million times, and whoever would have them be could send one id twice. */
export function responseKey(bytes: Buffer, start = 0, end = bytes.length): number {
  let high = end - start
  let low = 0x811c9dc5
  for (let i = start; i < end; i++) {
    high = Math.imul(high ^ bytes[i]!, 0x5bd1e995)
    high ^= high >>> 15
    low = Math.imul(low ^ bytes[i]!, 0x01000193)
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0)
}

/** Returns a function that remembers a call, unless one of the same response is known: of that, it gives the trace if it is a record of this call. */
export function recentCalls(limit: number): (trace: string, call: CallRecord) => string | undefined {
  const responses = new Float64Array(limit)
  const starts = new Float64Array(limit)
  const ends = new Float64Array(limit)
  const traces = new Array<string>(limit).fill('')
  const scopes = new Array<string>(limit).fill('')
  /** The latest place of each hash, and the next of the same one; NONE where there is none. */
  const first = new Int32Array(1 << Math.ceil(Math.log2(limit))).fill(NONE)
  const next = new Int32Array(limit)
  let count = 0

  const hashOf = (response: number) => (response >>> 0) & (first.length - 1)

  function find(response: number): number {
    let place = first[hashOf(response)]!
    while (place !== NONE && responses[place] !== response) place = next[place]!
    return place
  }

  /** The oldest makes room. */
  function room(): number {
    const place = count++ % limit
    if (count > limit) forget(place)
    return place
  }

  function forget(place: number): void {
    const hash = hashOf(responses[place]!)
    if (first[hash] === place) {
      first[hash] = next[place]!
      return
    }
    let before = first[hash]!
    while (next[before] !== place) before = next[before]!
    next[before] = next[place]!
  }

  return (trace, { response, scope, start, end }) => {
    const known = find(response)
    if (known !== NONE) {
      // An id alone says too little: stand-ins for a model give every answer the same. Two records of one call are by two
      // instrumentations and overlap.
      const isSame = scopes[known] !== scope && starts[known]! <= end && start <= ends[known]!
      return isSame ? traces[known] : undefined
    }
    const place = room()
    const hash = hashOf(response)
    responses[place] = response
    starts[place] = start
    ends[place] = end
    traces[place] = trace
    scopes[place] = scope
    next[place] = first[hash]!
    first[hash] = place
    return undefined
  }
}

const NONE = -1
