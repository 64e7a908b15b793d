// So many bytes at a time, out of a stream whose pieces are cut anywhere.

/** Of data that is not what its encoding says. */
export class CannotDecompress extends Error {}

export interface ByteReader {
  /** Rejects when the stream ends before so many have come. */
  take(size: number): Promise<Buffer>
  ended(): Promise<boolean>
}

export function byteReader(source: AsyncIterable<Buffer>): ByteReader {
  const pieces = source[Symbol.asyncIterator]()
  let held: Buffer[] = []
  let size = 0

  async function fill(wanted: number): Promise<boolean> {
    while (size < wanted) {
      const { done, value } = await pieces.next()
      if (done) return false
      held.push(value)
      size += value.length
    }
    return true
  }

  return {
    async take(wanted) {
      if (!(await fill(wanted))) throw new CannotDecompress(`the data ends early: ${wanted} bytes were to come, ${size} came`)
      const all = held.length === 1 ? held[0]! : Buffer.concat(held)
      held = [all.subarray(wanted)]
      size -= wanted
      return all.subarray(0, wanted)
    },
    ended: async () => !(await fill(1)),
  }
}
