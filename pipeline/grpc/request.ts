// The headers of a request: whether HTTP/2 allows them (RFC 9113, section 8.3), and what gRPC reads there.

import { Failure, STATUS } from './grpc.ts'
import type { Field } from './hpack.ts'

export interface Request {
  readonly method: string
  readonly path: string
  /** Whether its content type is gRPC's. */
  readonly isGrpc: boolean
  readonly encoding: string
  /** In milliseconds. */
  timeout: number | undefined
  readonly contentLength: number | undefined
  /** What it takes to keep the headers. */
  bytes: number
  /** The value of a header, several joined by commas. */
  metadata(name: string): string | undefined
}

/**
 * For one connection. Returns undefined for a malformed request; throws Failure when its timeout is none. What is returned is good until the
 * next call: clients send the same headers with each call, save for a timeout, and these are not read again.
 */
export function createRequestReader(): (fields: readonly Field[]) => Request | undefined {
  /** The last fields, in memory of our own, and what they say. */
  let before: Field[] = []
  let latest: Request | undefined
  let timeoutAt = -1

  function isLatest(fields: readonly Field[]): boolean {
    if (fields.length !== before.length) return false
    for (let i = 0; i < before.length; i++) if (fields[i] !== before[i] && i !== timeoutAt) return false
    return true
  }

  return (fields) => {
    const timeout = timeoutAt < 0 ? undefined : fields[timeoutAt]
    if (latest && isLatest(fields)) {
      if (timeout === undefined || timeout === before[timeoutAt]) return latest
      if (timeout.name === TIMEOUT && timeout.legal) {
        latest.timeout = readTimeout(timeout.value)
        latest.bytes += timeout.size - before[timeoutAt]!.size
        before[timeoutAt] = timeout
        return latest
      }
    }
    latest = undefined
    before = [...fields]
    timeoutAt = before.findLastIndex(({ name }) => name === TIMEOUT)
    return (latest = read(before))
  }
}

const TIMEOUT = 'grpc-timeout'

function read(fields: readonly Field[]): Request | undefined {
  let method: string | undefined
  let path: string | undefined
  let scheme: string | undefined
  let contentType = ''
  let encoding = 'identity'
  let timeout: string | undefined
  let contentLength: number | undefined
  let bytes = 0
  let pseudo = true
  for (const { name, value, size, legal } of fields) {
    if (!legal) return undefined
    bytes += size
    if (name.charCodeAt(0) !== COLON) pseudo = false
    else if (!pseudo) return undefined
    switch (name) {
      case ':method':
        if (method !== undefined) return undefined
        method = value
        break
      case ':path':
        if (path !== undefined || value === '') return undefined
        path = value
        break
      case ':scheme':
        if (scheme !== undefined) return undefined
        scheme = value
        break
      case ':authority':
        break
      case 'content-type':
        contentType = value
        break
      case 'grpc-encoding':
        encoding = value
        break
      case TIMEOUT:
        timeout = value
        break
      case 'content-length':
        if (!DIGITS.test(value) || (contentLength !== undefined && contentLength !== Number(value))) return undefined
        contentLength = Number(value)
        break
      case 'te':
        if (value.toLowerCase() !== 'trailers') return undefined
        break
      case 'connection':
      case 'keep-alive':
      case 'proxy-connection':
      case 'transfer-encoding':
      case 'upgrade':
        return undefined
      default:
        if (pseudo) return undefined
    }
  }
  if (method === undefined || path === undefined || scheme === undefined) return undefined
  return {
    method,
    path,
    isGrpc: CONTENT_TYPE.test(contentType),
    encoding,
    timeout: timeout === undefined ? undefined : readTimeout(timeout),
    contentLength,
    bytes,
    metadata: (name) => valueOf(fields, name),
  }
}

const COLON = 58
const CONTENT_TYPE = /^application\/grpc(?:$|[+;])/i
const DIGITS = /^\d{1,15}$/

function readTimeout(text: string): number {
  const last = text.length - 1
  const unit = UNITS.indexOf(text.charAt(last))
  let value = last >= 1 && last <= 8 && unit >= 0 ? 0 : NaN
  for (let i = 0; i < last; i++) {
    const digit = text.charCodeAt(i) - ZERO
    value = digit >= 0 && digit <= 9 ? value * 10 + digit : NaN
  }
  if (Number.isNaN(value)) throw new Failure(STATUS.internal, `grpc-timeout is no time: ${text}`)
  return value * MILLISECONDS[unit]!
}

const ZERO = 48
const UNITS = 'HMSmun'
const MILLISECONDS = [3_600_000, 60_000, 1_000, 1, 1e-3, 1e-6]

function valueOf(fields: readonly Field[], name: string): string | undefined {
  const values = fields.filter((field) => field.name === name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.join(',')
}
