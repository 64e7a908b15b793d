// The headers of a request, and whether HTTP/2 allows them (RFC 9113, section 8.3).

import type { Field } from './hpack.ts'

export interface Request {
  readonly method: string
  readonly path: string
  readonly contentType: string
  readonly encoding: string | undefined
  readonly timeout: string | undefined
  readonly contentLength: number | undefined
}

/** Returns undefined for a malformed request. */
export function readRequest(fields: readonly Field[]): Request | undefined {
  let method: string | undefined
  let path: string | undefined
  let scheme: string | undefined
  let contentType = ''
  let encoding: string | undefined
  let timeout: string | undefined
  let contentLength: number | undefined
  let pseudo = true
  for (const { name, value, legal } of fields) {
    if (!legal) return undefined
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
  return { method, path, contentType, encoding, timeout, contentLength }
}

const COLON = 58
const DIGITS = /^\d{1,15}$/

/** grpc-timeout in milliseconds, or undefined when it is none. */
export function readTimeout(text: string): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? []
  return digits === undefined ? undefined : Number(digits) * MILLISECONDS[unit as keyof typeof MILLISECONDS]
}

const MILLISECONDS = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }
