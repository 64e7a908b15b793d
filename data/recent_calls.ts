// The model calls that came last, each found by its response's id. A third of all spans is one: none of them becomes an object.

/** What an instrumentation says of a model call. */
export interface CallRecord {
  /** Name of the instrumentation. */
  scope: string
  /** As CALL has it. Doubles in an array are no objects, those that functions return are. */
  readonly numbers: Float64Array
}

/** By putResponse(); and nanoseconds since the epoch, as exact as a double has them. */
export const CALL = { response: 0, start: 1, end: 2 } as const

export const newCall = (): CallRecord => ({ scope: '', numbers: new Float64Array(3) })

/** 53 bits of a response's id: two of ten thousand are the same once in a hundred million times, and whoever would have them be could send one id twice. */
export function putResponse({ numbers }: CallRecord, bytes: Buffer, start = 0, end = bytes.length): void {
  let high = end - start
  let low = 0x811c9dc5
  for (let i = start; i < end; i++) {
    high = Math.imul(high ^ bytes[i]!, 0x5bd1e995)
    high ^= high >>> 15
    low = Math.imul(low ^ bytes[i]!, 0x01000193)
  }
  numbers[CALL.response] = (high >>> 11) * 2 ** 32 + (low >>> 0)
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

  function find(numbers: Float64Array): number {
    const response = numbers[CALL.response]!
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

  return (trace, { scope, numbers }) => {
    const known = find(numbers)
    const start = numbers[CALL.start]!
    const end = numbers[CALL.end]!
    if (known !== NONE) {
      // An id alone says too little: stand-ins for a model give every answer the same. Two records of one call are by two
      // instrumentations and overlap.
      const isSame = scopes[known] !== scope && starts[known]! <= end && start <= ends[known]!
      return isSame ? traces[known] : undefined
    }
    const place = room()
    const response = numbers[CALL.response]!
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
