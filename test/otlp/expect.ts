// What a case of fixtures/otlp expects, compared with what happened. Returns differences as words.

import { isDeepStrictEqual } from 'node:util'

import protobuf from 'protobufjs'

import type { Answer } from './client.ts'
import { responseType } from './bodies.ts'

type Json = Record<string, any>

export interface Outcome {
  readonly answers: readonly Answer[]
  readonly signal: 'traces' | 'logs'
  readonly json: boolean
  /** Per request. */
  readonly accepted: number
  readonly rejected: number
  readonly calls: number
  readonly distinct: number
  /** What reached the next component, each item with its `resource` and `scope`. */
  readonly items: readonly Json[]
  readonly rssGrowthMib: number
}

export function differences(expected: Json, outcome: Outcome): string[] {
  if (expected.any_of) {
    const all = (expected.any_of as Json[]).map((one) => differences(one, outcome))
    return all.some((one) => one.length === 0) ? [] : all.map((one, i) => `alternative ${i + 1}: ${one.join('; ')}`)
  }
  const found: string[] = []
  const same = (what: string, wanted: unknown, got: unknown) => {
    if (wanted !== undefined && !isDeepStrictEqual(wanted, got))
      found.push(`${what} ${JSON.stringify(got)}, expected ${JSON.stringify(wanted)}`)
  }
  for (const answer of outcome.answers) {
    same('status', expected.status, answer.status)
    if (expected.status_in && !expected.status_in.includes(answer.status)) found.push(`status ${answer.status}`)
    same('gRPC code', expected.grpc_code, answer.grpc_code)
    same('connection', expected.connection, answer.connection)
    same('content type', expected.content_type, String(answer.headers['content-type']).split(';')[0])
    for (const [name, wanted] of Object.entries(expected.headers ?? {})) found.push(...header(name, wanted, answer.headers[name]))
    if (expected.body) found.push(...body(expected.body, answer.body, outcome, expected.warning_ok))
    if (expected.retry_info !== undefined) same('RetryInfo', expected.retry_info, retryInfo(answer))
    if (answer.body.length > (expected.max_response_bytes ?? Infinity)) found.push(`an answer of ${answer.body.length} bytes`)
  }
  same('accepted', expected.accepted_spans ?? expected.accepted_log_records, outcome.accepted)
  same('rejected', expected.rejected_spans, outcome.rejected)
  same('downstream calls', expected.downstream_calls, outcome.calls)
  same('distinct spans', expected.distinct_spans, outcome.distinct)
  if (outcome.rssGrowthMib > (expected.max_rss_growth_mib ?? Infinity)) found.push(`memory grew by ${outcome.rssGrowthMib} MiB`)
  for (const [key, size] of Object.entries(expected.stored_attribute_bytes ?? {})) {
    same(`bytes of ${key}`, size, outcome.items[0]?.attributes.find((a: Json) => a.key === key)?.value.stringValue.length)
  }
  for (const wanted of expected.stored ?? []) {
    if (!outcome.items.some((item) => stored(wanted, item)))
      found.push(`no item like ${JSON.stringify(wanted)} in ${JSON.stringify(outcome.items)}`)
  }
  return found
}

function header(name: string, wanted: any, got: unknown): string[] {
  const text = String(got ?? '')
  const fits =
    wanted === null
      ? got === undefined
      : typeof wanted === 'string'
        ? text === wanted
        : wanted.contains !== undefined
          ? text.includes(wanted.contains)
          : wanted.contains_ci !== undefined
            ? text.toLowerCase().includes(wanted.contains_ci.toLowerCase())
            : wanted.one_of.includes(got)
  return fits ? [] : [`header ${name} ${JSON.stringify(got)}, expected ${JSON.stringify(wanted)}`]
}

function body(wanted: Json, got: Buffer, { signal, json }: Outcome, warningOk = false): string[] {
  if (json && !isJson(got)) return [`an answer that is not JSON: ${got.toString()}`]
  if (wanted.rpc_status) {
    const status = json ? (JSON.parse(got.toString()) as Json) : rpcStatus(got)
    return wanted.rpc_status.message_nonempty && !status.message ? [`a Status without a message: ${JSON.stringify(status)}`] : []
  }
  const response = json
    ? (JSON.parse(got.toString()) as Json)
    : responseType(signal).toObject(responseType(signal).decode(got), { longs: String })
  const partial = response.partialSuccess as Json | undefined
  const rejected = Number(partial?.rejectedSpans ?? partial?.rejectedLogRecords ?? 0)
  if (wanted.partial_success) {
    const { rejected: count, message_nonempty: message } = wanted.partial_success
    return partial && rejected === count && (!message || partial.errorMessage) ? [] : [`answer ${JSON.stringify(response)}`]
  }
  if (warningOk && partial && rejected === 0 && partial.errorMessage) return []
  const fits =
    wanted.equals !== undefined
      ? isDeepStrictEqual(response, wanted.equals)
      : wanted.json !== undefined
        ? contains(response, wanted.json)
        : got.toString('hex') === wanted.hex
  return fits ? [] : [`answer ${JSON.stringify(response)}, expected ${JSON.stringify(wanted)}`]
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString())
    return true
  } catch {
    return false
  }
}

const contains = (got: any, wanted: any): boolean =>
  typeof wanted === 'object' && wanted !== null ? Object.keys(wanted).every((key) => contains(got?.[key], wanted[key])) : got === wanted

const google = protobuf.parse(`
  syntax = "proto3";
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
`).root

const rpcStatus = (bytes: Buffer) => google.lookupType('Status').decode(bytes) as Json

function retryInfo({ headers }: Answer): { seconds: number } | null {
  const status = rpcStatus(Buffer.from(String(headers['grpc-status-details-bin'] ?? ''), 'base64'))
  const detail = (status.details as Json[]).find(({ typeUrl }) => typeUrl === 'type.googleapis.com/google.rpc.RetryInfo')
  if (!detail) return null
  const { retryDelay } = google.lookupType('RetryInfo').decode(detail.value) as Json
  return { seconds: Number(retryDelay.seconds) }
}

/** True when the item has all the members that are wanted; a member that is absent has its default. */
function stored(wanted: Json, item: Json): boolean {
  return Object.entries(wanted).every(([key, value]) => member(key, value, item))
}

function member(key: string, wanted: any, item: Json): boolean {
  if (key === 'resource') return isDeepStrictEqual(attributeMap(wanted), attributeMap(item.resource.attributes))
  if (key === 'attributes') return isDeepStrictEqual(attributeMap(wanted), attributeMap(item.attributes))
  if (key === 'attributes_list')
    return isDeepStrictEqual(attributeMap(wanted), attributeMap(item.attributes)) && wanted.length === item.attributes.length
  if (key === 'body') return isDeepStrictEqual(anyValue(wanted), anyValue(item.body))
  if (key === 'events' || key === 'links') {
    const list = (item[key] ?? []) as Json[]
    return list.length === wanted.length && (wanted as Json[]).every((one, i) => stored(one, list[i]!))
  }
  if (key === 'scope' || key === 'status') return stored(wanted, item[key] ?? {})
  return isDeepStrictEqual(unlessDefault(wanted), unlessDefault(item[key]))
}

const unlessDefault = (value: unknown) => (value === '' || value === 0 || value === '0' ? undefined : value)

/** As a map from key to value, the last of equal keys counting. */
function attributeMap(attributes: Json[] | Json = []): [string, unknown][] {
  const entries = Array.isArray(attributes) ? attributes.map(({ key, value }) => [key, value] as const) : Object.entries(attributes)
  return [...new Map(entries.map(([key, value]) => [key, anyValue(value)]))].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** In one form: lists never absent. */
function anyValue(value: Json = {}): unknown {
  if (value.arrayValue) return { arrayValue: (value.arrayValue.values ?? []).map(anyValue) }
  if (value.kvlistValue) return { kvlistValue: (value.kvlistValue.values ?? []).map((kv: Json) => [kv.key, anyValue(kv.value)]) }
  return { ...value }
}
