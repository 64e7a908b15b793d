// The safetensors format: 8 bytes of header length, a JSON header, then the tensors end to end. Read as float32, written as float32 or bfloat16.

import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs'

export interface Weight {
  readonly shape: readonly number[]
  /** Row-major. */
  readonly data: Float32Array
}

interface HeaderEntry {
  readonly dtype: string
  readonly shape: readonly number[]
  readonly data_offsets: readonly [number, number]
}

const BYTES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 }
const MOST_HEADER = 100_000_000

/** Reads every tensor of a file. Throws, naming file and tensor, when it is cut off, no safetensors file, of another type, or holds NaN or Inf. */
export function readSafetensors(file: string): Map<string, Weight> {
  const fd = openSync(file, 'r')
  try {
    const { entries, begin } = readHeader(fd, file)
    const size = fstatSync(fd).size
    return new Map(
      entries.map(([name, { dtype, shape, data_offsets: offsets }]) => {
        const wrong = (what: string) => new Error(`${file}: tensor ${name} ${what}`)
        const width = BYTES[dtype]
        if (!width) throw wrong(`is ${dtype}; can be ${Object.keys(BYTES).join(', ')}`)
        const [from, to] = offsets
        const count = shape.reduce((product, length) => product * length, 1)
        if (to - from !== count * width)
          throw wrong(`has ${to - from} bytes where [${shape.join(', ')}] of ${dtype} needs ${count * width}`)
        if (begin + to > size) throw wrong(`ends at byte ${begin + to}, the file at ${size}: it is cut off`)
        const bytes = new Uint8Array(to - from)
        readFully(fd, bytes, begin + from)
        const data = widen(bytes, dtype)
        const bad = data.findIndex((value) => !Number.isFinite(value))
        if (bad !== -1) throw wrong(`holds ${data[bad]} at place ${bad}`)
        return [name, { shape, data }]
      }),
    )
  } finally {
    closeSync(fd)
  }
}

function readHeader(fd: number, file: string): { entries: [string, HeaderEntry][]; begin: number } {
  const size = fstatSync(fd).size
  const length = Buffer.alloc(8)
  if (size < 8) throw new Error(`${file}: is cut off: ${size} bytes`)
  readFully(fd, length, 0)
  const headerLength = Number(length.readBigUInt64LE())
  if (headerLength > MOST_HEADER) throw new Error(`${file}: is no safetensors file: its header would be ${headerLength} bytes`)
  if (8 + headerLength > size) throw new Error(`${file}: is cut off within its header`)
  const text = Buffer.alloc(headerLength)
  readFully(fd, text, 8)
  try {
    const header = JSON.parse(text.toString('utf8')) as Record<string, HeaderEntry>
    return { entries: Object.entries(header).filter(([name]) => name !== '__metadata__'), begin: 8 + headerLength }
  } catch (error) {
    throw new Error(`${file}: is no safetensors file: ${(error as Error).message}`)
  }
}

function readFully(fd: number, into: Uint8Array, position: number): void {
  // One read call takes at most 2 GB.
  for (let done = 0; done < into.length;) {
    const read = readSync(fd, into, done, Math.min(into.length - done, 2 ** 30), position + done)
    if (read === 0) throw new Error('the file ended while it was read')
    done += read
  }
}

function widen(bytes: Uint8Array, dtype: string): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes.buffer)
  const halves = new Uint16Array(bytes.buffer)
  const bits = new Uint32Array(halves.length)
  if (dtype === 'BF16') for (let i = 0; i < bits.length; i++) bits[i] = halves[i]! << 16
  else for (let i = 0; i < bits.length; i++) bits[i] = halfToFloatBits(halves[i]!)
  return new Float32Array(bits.buffer)
}

/** IEEE 754 half precision: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
function halfToFloatBits(half: number): number {
  const sign = (half & 0x8000) << 16
  const exponent = (half >> 10) & 31
  let fraction = half & 1023
  if (exponent === 31) return sign | 0x7f800000 | (fraction << 13)
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13)
  if (fraction === 0) return sign
  // Below the normal range: shift until the leading bit is the implicit one.
  let shift = 0
  for (; !(fraction & 1024); shift++) fraction <<= 1
  return sign | ((113 - shift) << 23) | ((fraction & 1023) << 13)
}

/** Writes beside `file`, syncs and renames: a reader sees all of it or nothing. What was begun is removed when the disk is full. */
export function writeSafetensors(file: string, tensors: ReadonlyMap<string, Weight>, dtype: 'F32' | 'BF16' = 'F32'): void {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } }
  let offset = 0
  for (const [name, { shape, data }] of tensors) {
    const end = offset + data.length * BYTES[dtype]!
    header[name] = { dtype, shape, data_offsets: [offset, end] }
    offset = end
  }
  // Padded with spaces, so that the tensors begin at a multiple of 8.
  const json = Buffer.from(JSON.stringify(header))
  const text = Buffer.concat([json, Buffer.alloc((8 - (json.length % 8)) % 8, ' ')])
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))

  const unfinished = `${file}.unfinished`
  const fd = openSync(unfinished, 'w')
  try {
    writeFully(fd, length)
    writeFully(fd, text)
    for (const { data } of tensors.values()) {
      const numbers = dtype === 'BF16' ? toBfloat16(data) : data
      writeFully(fd, new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength))
    }
    fsyncSync(fd)
  } catch (error) {
    rmSync(unfinished, { force: true })
    throw new Error(`${file} cannot be written: ${(error as Error).message}`)
  } finally {
    closeSync(fd)
  }
  renameSync(unfinished, file)
}

function writeFully(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, Math.min(bytes.length - done, 2 ** 30))
}

/** The upper half of a float32, rounded to nearest, ties to even. */
function toBfloat16(data: Float32Array): Uint16Array {
  const bits = new Uint32Array(data.buffer, data.byteOffset, data.length)
  const rounded = new Uint16Array(bits.length)
  for (let i = 0; i < bits.length; i++) rounded[i] = (bits[i]! + 0x7fff + ((bits[i]! >>> 16) & 1)) >>> 16
  return rounded
}
