// The head of an HTTP/1.1 request, where it is of the plainest kind (RFC 9112): whole, small, a POST with one Content-Length, and each
// field once. Of anything else nothing is said here: node:http reads it, and knows.

export interface PlainHead {
  readonly path: string
  readonly fields: ReadonlyMap<string, string>
  readonly contentLength: number
  readonly keepAlive: boolean
  /** Where the body begins. */
  readonly end: number
}

const MAX_BYTES = 4_096
const END = Buffer.from('\r\n\r\n')

const REQUEST = /^POST (\/[!->@-~]*) HTTP\/1\.1$/
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):[\t ]*([\t -~]*)$/
const LENGTH = /^\d{1,15}$/

/** Fields that change what a request is, or where it ends. */
const TELLING = ['expect', 'http2-settings', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']

/** Undefined unless what begins at `start` is plain. */
export function plainHead(bytes: Buffer, start: number, end: number): PlainHead | undefined {
  const head = bytes.subarray(start, Math.min(end, start + MAX_BYTES))
  const length = head.indexOf(END)
  if (length < 0) return undefined
  const [first, ...lines] = head.toString('latin1', 0, length).split('\r\n')
  const path = REQUEST.exec(first!)?.[1]
  const fields = fieldsOf(lines)
  if (path === undefined || !fields?.get('host') || TELLING.some((name) => fields.has(name))) return undefined
  const connection = fields.get('connection')?.toLowerCase() ?? 'keep-alive'
  const contentLength = fields.get('content-length')
  if (contentLength === undefined || !LENGTH.test(contentLength) || !(connection === 'keep-alive' || connection === 'close'))
    return undefined
  return {
    path,
    fields,
    contentLength: Number(contentLength),
    keepAlive: connection === 'keep-alive',
    end: start + length + END.length,
  }
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
