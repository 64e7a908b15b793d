// The head of an HTTP/1.1 request, where it is of the plainest kind (RFC 9112): whole, small, a POST with one Content-Length, and each
// field once. Of anything else nothing is said here: node:http reads it, and knows.

export interface PlainHead {
  readonly path: string
  /** Without Content-Length. */
  readonly fields: ReadonlyMap<string, string>
  readonly keepAlive: boolean
  readonly contentLength: number
  /** Where the body begins. */
  readonly end: number
}

const MAX_BYTES = 4_096
const END = Buffer.from('\r\n\r\n')

const REQUEST = /^POST (\/[!->@-~]*) HTTP\/1\.1$/
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):[\t ]*([\t -~]*)$/
const LENGTH = /^\d{1,15}$/
const MAX_DIGITS = 15
const LENGTH_NAME = /\r\ncontent-length:[\t ]*/i

/** Fields that change what a request is, or where it ends. */
const TELLING = ['expect', 'http2-settings', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']

interface Known {
  readonly head: PlainHead
  /** Its bytes before and behind the digits of its length. */
  readonly before: Buffer
  readonly behind: Buffer
}

/**
 * For one connection. Returns undefined unless what begins at `start` is plain. Clients send the same head with each request, save for the
 * length, and that is not taken apart again.
 */
export function createHeadReader(): (bytes: Buffer, start: number, end: number) => PlainHead | undefined {
  let latest: Known | undefined
  return (bytes, start, end) => {
    const same = latest && readAgain(latest, bytes, start, end)
    if (same) return same
    const head = read(bytes, start, end)
    latest = head && known(head, bytes.toString('latin1', start, head.end))
    return head
  }
}

function readAgain({ head, before, behind }: Known, bytes: Buffer, start: number, end: number): PlainHead | undefined {
  const digits = start + before.length
  const last = Math.min(end, digits + MAX_DIGITS)
  let contentLength = 0
  let at = digits
  for (; at < last && isDigit(bytes[at]!); at++) contentLength = contentLength * 10 + bytes[at]! - ZERO
  if (at === digits || !standsAt(before, bytes, start, end) || !standsAt(behind, bytes, at, end)) return undefined
  const { path, fields, keepAlive } = head
  return { path, fields, keepAlive, contentLength, end: at + behind.length }
}

const ZERO = 48
const isDigit = (byte: number): boolean => byte >= ZERO && byte <= ZERO + 9

const standsAt = (some: Buffer, bytes: Buffer, at: number, end: number): boolean =>
  at + some.length <= end && some.compare(bytes, at, at + some.length) === 0

function known(head: PlainHead, text: string): Known {
  const [name] = LENGTH_NAME.exec(text)!
  const digits = text.indexOf(name) + name.length
  const before = Buffer.from(text.slice(0, digits), 'latin1')
  return { head, before, behind: Buffer.from(text.slice(text.indexOf('\r', digits)), 'latin1') }
}

function read(bytes: Buffer, start: number, end: number): PlainHead | undefined {
  const head = bytes.subarray(start, Math.min(end, start + MAX_BYTES))
  const length = head.indexOf(END)
  if (length < 0) return undefined
  const [first, ...lines] = head.toString('latin1', 0, length).split('\r\n')
  const path = REQUEST.exec(first!)?.[1]
  const fields = fieldsOf(lines)
  if (path === undefined || !fields?.get('host') || TELLING.some((name) => fields.has(name))) return undefined
  const connection = fields.get('connection')?.toLowerCase() ?? 'keep-alive'
  const contentLength = fields.get('content-length') ?? ''
  if (!LENGTH.test(contentLength) || !(connection === 'keep-alive' || connection === 'close')) return undefined
  fields.delete('content-length')
  const keepAlive = connection === 'keep-alive'
  return { path, fields, keepAlive, contentLength: Number(contentLength), end: start + length + END.length }
}

function fieldsOf(lines: readonly string[]): Map<string, string> | undefined {
  const fields = new Map<string, string>()
  for (const line of lines) {
    const [, name, value = ''] = FIELD.exec(line) ?? []
    if (name === undefined || value !== value.trimEnd()) return undefined
    fields.set(name.toLowerCase(), value)
  }
  return fields.size === lines.length ? fields : undefined
}
