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
  readonly timeout: number | undefined
  readonly contentLength: number | undefined
  /** What it takes to keep the headers. */
  readonly bytes: number
  /** The value of a header, several joined by commas. */
  metadata(name: string): string | undefined
}

/** Returns undefined for a malformed request; throws Failure when its timeout is none. Fields that come again are not read again. */
export function readRequest(fields: readonly Field[]): Request | undefined {
  if (fields === latestFields) return latest
  latest = undefined
  latestFields = undefined
  latest = read(fields)
  latestFields = fields
  return latest
}

let latestFields: readonly Field[] | undefined
let latest: Request | undefined

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
      case 'grpc-timeout':
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
    timeout: readTimeout(timeout),
    contentLength,
    bytes,
    metadata: (name) => valueOf(fields, name),
  }
}

const COLON = 58
const CONTENT_TYPE = /^application\/grpc(?:$|[+;])/i
const DIGITS = /^\d{1,15}$/

function readTimeout(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? []
  if (digits === undefined) throw new Failure(STATUS.internal, `grpc-timeout is no time: ${text}`)
  return Number(digits) * MILLISECONDS[unit as keyof typeof MILLISECONDS]
}

function valueOf(fields: readonly Field[], name: string): string | undefined {
  const values = fields.filter((field) => field.name === name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.join(',')
}

const MILLISECONDS = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }
