// HPACK (RFC 7541): header lists as HTTP/2 compresses them. The decoder keeps the dynamic table of one connection; the encoder
// uses none, so that an answer is the same bytes for every client.

import { CODE, ConnectionError } from './frames.ts'
import { decodeHuffman } from './huffman.ts'

export interface Field {
  readonly name: string
  /** Bytes as latin1. */
  readonly value: string
  /** As HTTP/2 counts it: 32 more than its bytes. */
  readonly size: number
  /** Whether HTTP/2 allows such a name and value (RFC 9113, section 8.2.1), and such a name. */
  readonly legal: boolean
  readonly isName: boolean
}

export interface HpackDecoder {
  /**
   * The fields of one complete header block, which stands from `start` to `end`, good until the next; undefined when they are larger than the
   * limit. Throws ConnectionError.
   */
  decode(bytes: Buffer, start?: number, end?: number): readonly Field[] | undefined
}

/** SETTINGS_HEADER_TABLE_SIZE: the protocol's default, which we never change. */
const TABLE_BYTES = 4_096

/** Blocks of fields that the table has are shorter. */
const REMEMBERED_BYTES = 256

const [TAB, LF, CR, SPACE] = [9, 10, 13, 32] as const
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/

const STATIC = (
  ':authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|:status=206|' +
  ':status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|accept|' +
  'access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|content-encoding|content-language|' +
  'content-length|content-location|content-range|content-type|cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|' +
  'if-none-match|if-range|if-unmodified-since|last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|' +
  'referer|refresh|retry-after|server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate'
)
  .split('|')
  .map((entry) => entry.split('=') as [string, string?])
  .map(([name, value = '']) => field(name, value))

export function createHpackDecoder(maxListBytes: number): HpackDecoder {
  /** Oldest first; those before `first` are gone. It begins with one such: V8 takes an empty array for one of integers. */
  let table: Field[] = [STATIC[0]!]
  let first = 1
  let bytes = 0
  let limit = TABLE_BYTES
  let block: Buffer
  let at = 0
  let end = 0
  /** Of the latest block: an array for each would have to grow each time. */
  const fields: Field[] = []
  /** Whether the block being read changes the table, so that it will not say the same again. */
  let changed = false

  /** The latest block that changed nothing, and what it says: clients send the same headers with every call. */
  const latest = Buffer.allocUnsafeSlow(REMEMBERED_BYTES)
  let latestLength = -1
  let latestFields: readonly Field[] | undefined

  function decode(input: Buffer, from = 0, to = input.length): readonly Field[] | undefined {
    if (to - from === latestLength && saysTheSame(input, from)) return latestFields
    latestLength = -1
    changed = false
    const found = read(input, from, to)
    if (!changed && to - from <= REMEMBERED_BYTES) remember(input, from, to, found)
    return found
  }

  // A few bytes each: a loop is cheaper than a call out of JavaScript.

  function remember(input: Buffer, from: number, to: number, found: readonly Field[] | undefined): void {
    latestLength = to - from
    for (let i = 0; i < latestLength; i++) latest[i] = input[from + i]!
    latestFields = found
  }

  function saysTheSame(input: Buffer, from: number): boolean {
    for (let i = 0; i < latestLength; i++) if (latest[i] !== input[from + i]) return false
    return true
  }

  function read(input: Buffer, from: number, to: number): readonly Field[] | undefined {
    block = input
    at = from
    end = to
    let count = 0
    let size = 0
    while (at < end && (block[at]! & 0xe0) === 0x20) resize()
    while (at < end) {
      const found = next()
      size += found.size
      if (size <= maxListBytes) fields[count++] = found
    }
    if (fields.length > count) fields.length = count
    return size <= maxListBytes ? fields : undefined
  }

  function resize(): void {
    changed = true
    limit = integer(5)
    if (limit > TABLE_BYTES) throw broken('a table larger than allowed')
    evict()
  }

  function next(): Field {
    const byte = block[at]!
    if (byte & 0x80) return entry(integer(7))
    if ((byte & 0xe0) === 0x20) throw broken('a table size between fields')
    const remembered = (byte & 0x40) !== 0
    const index = integer(remembered ? 6 : 4)
    const found = index === 0 ? field(text(), text()) : alike(entry(index), text())
    if (remembered) {
      changed = true
      table.push(found)
      bytes += found.size
      evict()
    }
    return found
  }

  function entry(index: number): Field {
    const place = table.length + STATIC.length - index
    const found = index <= STATIC.length ? STATIC[index - 1] : place >= first ? table[place] : undefined
    if (!found) throw broken(`no field has index ${index}`)
    return found
  }

  function evict(): void {
    while (bytes > limit) bytes -= table[first++]!.size
    if (first > 64) {
      table = table.slice(first)
      first = 0
    }
  }

  /** At most 2^28: nothing that stands here may be larger. */
  function integer(bits: number): number {
    const mask = (1 << bits) - 1
    let value = block[at++]! & mask
    if (value < mask) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      if (at === end) throw broken('cut short')
      const byte = block[at++]!
      value += (byte & 127) << shift
      if (byte < 128) return value
    }
    throw broken('a number too large')
  }

  function text(): string {
    if (at === end) throw broken('cut short')
    const coded = (block[at]! & 0x80) !== 0
    const length = integer(7)
    const start = at
    at += length
    if (at > end) throw broken('cut short')
    if (!coded) return block.toString('latin1', start, at)
    if (scratch.length < 2 * length) scratch = Buffer.allocUnsafe(2 * length)
    const decoded = decodeHuffman(block, start, at, scratch)
    if (decoded < 0) throw broken('no Huffman code')
    return scratch.toString('latin1', 0, decoded)
  }

  return { decode }
}

let scratch = Buffer.allocUnsafe(1_024)

function field(name: string, value: string, isName = NAME.test(name)): Field {
  return { name, value, size: 32 + name.length + value.length, legal: isName && isValue(value), isName }
}

/** Of a name that was looked at before. */
const alike = ({ name, isName }: Field, value: string): Field => field(name, value, isName)

/** Clients that give a deadline send another value with each call: this is cheaper than a regular expression. */
function isValue(value: string): boolean {
  const last = value.length - 1
  for (let i = 0; i <= last; i++) {
    const code = value.charCodeAt(i)
    if (code === 0 || code === LF || code === CR || ((code === SPACE || code === TAB) && (i === 0 || i === last))) return false
  }
  return true
}

function broken(what: string): ConnectionError {
  return new ConnectionError(CODE.compressionError, `header compression: ${what}`)
}

/** `:status: 200` and, for any other field, a literal that no table remembers. Names and values are ASCII. */
export const STATUS_200 = Buffer.from([0x88])
export function encodeField(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0]), encodeText(name), encodeText(value)])
}

function encodeText(text: string): Buffer {
  const length = text.length < 127 ? [text.length] : [127]
  if (text.length >= 127) {
    let rest = text.length - 127
    for (; rest >= 128; rest >>>= 7) length.push((rest & 127) | 128)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), Buffer.from(text, 'latin1')])
}
