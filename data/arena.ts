// Memory for the bytes of spans on their way: socket, request, ring, rows. It is one ArrayBuffer, for only within one can bytes be copied
// without making an object for each copy; pages of it that are never written take no memory.

const ARENA_BYTES = 96 << 20
/** Larger pieces are rare, and what an object costs is little beside copying them. */
const LARGEST = 20 << 20

let arena: Buffer | undefined
let used = 0
/** Offsets of pieces that nobody holds any more, by size. */
const free = new Map<number, number[]>()
const dropped = new FinalizationRegistry<{ at: number; size: number }>(({ at, size }) => {
  const same = free.get(size)
  if (same) same.push(at)
  else free.set(size, [at])
})

/**
 * So many bytes, from the arena as long as it lasts. They are anybody's again when the Buffer is garbage: whoever keeps a part of it must keep
 * it, too.
 */
export function allocate(size: number): Buffer {
  const at = size > LARGEST ? undefined : (free.get(size)?.pop() ?? fresh(size))
  if (at === undefined) return Buffer.allocUnsafeSlow(size)
  const buffer = Buffer.from(arena!.buffer, at, size)
  dropped.register(buffer, { at, size })
  return buffer
}

function fresh(size: number): number | undefined {
  arena ??= Buffer.allocUnsafeSlow(ARENA_BYTES)
  if (used + size > ARENA_BYTES) return undefined
  used += (size + 7) & ~7
  return used - ((size + 7) & ~7)
}

/** As source.copy(target, at, start, end). */
export function copyBytes(source: Buffer, start: number, end: number, target: Buffer, at: number): void {
  const memory = source.buffer
  if (memory !== target.buffer || memory !== arena?.buffer) source.copy(target, at, start, end)
  else arena.copyWithin(target.byteOffset + at, source.byteOffset + start, source.byteOffset + end)
}
