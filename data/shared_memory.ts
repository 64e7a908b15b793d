// Memory for what is copied on the way of every span: messages, and the rows that are made of them. It is taken from one ArrayBuffer, since
// within one a copy is copyWithin(), which makes nothing; a copy of a part from one buffer to another makes a view of that part first, and
// those views were a third of all garbage. Pages that nobody has written to take no room.

const SIZE = 128 << 20

let whole: Buffer | undefined
let used = 0
/** What was given back, by its size. */
const free = new Map<number, Buffer[]>()

/** So many bytes, which hold anything; of the shared memory as long as it has room. */
export function takeMemory(size: number): Buffer {
  const again = free.get(size)?.pop()
  if (again) return again
  whole ??= Buffer.allocUnsafeSlow(SIZE)
  if (used + size > SIZE) return Buffer.allocUnsafeSlow(size)
  used += size
  return whole.subarray(used - size, used)
}

/** Whoever gives it back has it no longer. */
export function giveMemory(memory: Buffer): void {
  if (placeInShared(memory) === NOT_SHARED) return
  const same = free.get(memory.length)
  if (same) same.push(memory)
  else free.set(memory.length, [memory])
}

const NOT_SHARED = -1

/** Where the bytes begin in the shared memory; NOT_SHARED for others. */
const placeInShared = (bytes: Buffer): number => (whole !== undefined && bytes.buffer === whole.buffer ? bytes.byteOffset : NOT_SHARED)

/** Copies `from` from `start` up to `end` into `to`, at `at`: both may be anywhere, and mostly are where they were the last time. */
export function copyBytes(from: Buffer, start: number, end: number, to: Buffer, at: number): void {
  if (from !== lastFrom) fromPlace = placeInShared((lastFrom = from))
  if (to !== lastTo) toPlace = placeInShared((lastTo = to))
  if (fromPlace === NOT_SHARED || toPlace === NOT_SHARED) {
    lastFrom = lastTo = undefined // nobody's memory is held on to
    from.copy(to, at, start, end)
  } else whole!.copyWithin(toPlace + at, fromPlace + start, fromPlace + end)
}

let lastFrom: Buffer | undefined
let lastTo: Buffer | undefined
let fromPlace = NOT_SHARED
let toPlace = NOT_SHARED
