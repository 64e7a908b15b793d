// An answer of HTTP/1.1 as it comes from a socket, piece by piece (RFC 9112). Left out: what an answer to a POST cannot be, such as one
// without a body because HEAD was asked for, or another protocol.

/** Takes an answer as it comes. */
export interface AnswerTaker {
  /** Told once; `head` is all of it, as it came. */
  begin(status: number, head: string): void
  /** A piece of the body, which is only lent. */
  data(piece: Buffer): void
}

export interface AnswerReader {
  /** Takes what was read. Once the answer is whole: whether its connection may be used again. Throws BadAnswer where it is none. */
  take(bytes: Buffer): { readonly lasting: boolean } | undefined
  /** The same when there is no more to read. */
  end(): { readonly lasting: boolean } | undefined
}

export class BadAnswer extends Error {}

const MOST_HEAD_BYTES = 64 << 10
const MOST_LINE_BYTES = 8 << 10
/** A server that ends what rests for less than this many seconds may do so just when it is used again. */
const RESTS_S = 3

const STATUS = /^HTTP\/1\.([01]) ([1-5]\d\d)[ \r]/
const LENGTH = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n/i
const CODING = /\r\ntransfer-encoding:[ \t]*([^\r]*?)[ \t]*\r\n/i
const CLOSES = /\r\nconnection:[^\r]*\bclose\b/i
const RESTS = /\r\nkeep-alive:[^\r]*\btimeout=(\d+)/i
const CHUNK = /^([\da-f]{1,13})[ \t]*(?:;.*)?$/i

type Part = 'head' | 'length' | 'chunk size' | 'chunk' | 'chunk end' | 'trailers' | 'all'

/** Of one answer. */
export function answerReader(taker: AnswerTaker): AnswerReader {
  let part: Part = 'head'
  /** The beginning of a head or of a line. */
  let held = ''
  let status = 0
  let lasting = false
  /** Of the body, or of its chunk. */
  let left = 0

  function take(bytes: Buffer): { readonly lasting: boolean } | undefined {
    let at = 0
    while (at < bytes.length) {
      if (part === 'head') {
        const end = readHead(bytes, at)
        if (end < 0) return undefined
        at = end
        if (isBodiless()) return whole(at === bytes.length)
      } else if (part === 'all') {
        taker.data(bytes.subarray(at))
        at = bytes.length
      } else if (part === 'length' || part === 'chunk') {
        const end = Math.min(bytes.length, at + left)
        taker.data(bytes.subarray(at, end))
        left -= end - at
        at = end
        if (left === 0 && part === 'length') return whole(at === bytes.length)
        if (left === 0) part = 'chunk end'
      } else {
        const end = bytes.indexOf(LINE_FEED, at)
        hold(bytes, at, end < 0 ? bytes.length : end, MOST_LINE_BYTES)
        if (end < 0) return undefined
        at = end + 1
        if (endsWith(held.endsWith('\r') ? held.slice(0, -1) : held)) return whole(at === bytes.length)
        held = ''
      }
    }
    return undefined
  }

  const isBodiless = () => part === 'length' && left === 0

  function hold(bytes: Buffer, from: number, to: number, most: number): void {
    held += bytes.toString('latin1', from, to)
    if (held.length > most) throw new BadAnswer(`its head or a line of it has more than ${most} bytes`)
  }

  /** Where it ends; -1 where it has not yet. */
  function readHead(bytes: Buffer, from: number): number {
    const before = held.length
    hold(bytes, from, Math.min(bytes.length, from + MOST_HEAD_BYTES - before + 1), MOST_HEAD_BYTES)
    const end = held.indexOf('\r\n\r\n')
    if (end < 0) return -1
    const head = held.slice(0, end + 4)
    held = ''
    const line = STATUS.exec(head)
    if (!line) throw new BadAnswer('it does not begin as one of HTTP/1.1')
    status = Number(line[2])
    if (status >= 200) readFraming(head, line[1] === '1')
    // Others are about one that is to come.
    else if (status === 101) throw new BadAnswer('it changes the protocol')
    return from + head.length - before
  }

  function readFraming(head: string, latest: boolean): void {
    lasting = latest && !CLOSES.test(head) && Number(RESTS.exec(head)?.[1] ?? RESTS_S) >= RESTS_S
    const coding = CODING.exec(head)?.[1]
    const length = LENGTH.exec(head)?.[1]
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') throw new BadAnswer(`its body is ${coding}, which was not asked for`)
    const bodiless = status === 204 || status === 304
    left = bodiless ? 0 : Number(length)
    part = bodiless || (coding === undefined && length !== undefined) ? 'length' : coding === undefined ? 'all' : 'chunk size'
    taker.begin(status, head)
  }

  /** Whether the answer ends with this line. */
  function endsWith(line: string): boolean {
    if (part === 'trailers') return line === ''
    if (part === 'chunk end') {
      if (line !== '') throw new BadAnswer('a chunk of it is longer than it says')
      part = 'chunk size'
      return false
    }
    const size = CHUNK.exec(line)?.[1]
    if (size === undefined) throw new BadAnswer('a chunk of it says no size')
    left = parseInt(size, 16)
    part = left === 0 ? 'trailers' : 'chunk'
    return false
  }

  /** What comes after it was not asked for: who knows what else will. */
  const whole = (last: boolean) => ({ lasting: lasting && last })

  const end = () => (part === 'all' ? { lasting: false } : undefined)

  return { take, end }
}

const LINE_FEED = 0x0a
