// Request bodies of fixtures/otlp, as its README describes them. Protobuf is made by protobufjs from
// proto/, so that our own encoder is not the judge of our own decoder.

import { createRequire } from 'node:module'
import { createGzip, gzipSync } from 'node:zlib'

import protobuf from 'protobufjs'

export interface Body {
  json?: unknown
  text?: string
  hex?: string
  base64?: string
  protobuf_of_json?: Json
  generate?: Generate
  as?: 'json' | 'protobuf'
}

interface Generate {
  spans?: number
  log_records?: number
  attribute_bytes?: number
  zero_span_id_every?: number
  nested_kvlist?: number
  nested_array?: number
  unknown_nested_brackets?: number
  unknown_nested_groups?: number
  fill_byte?: number
  bytes?: number
}

type Json = Record<string, any>

export async function bodyOf(body: Body | undefined, gzip = false): Promise<Buffer> {
  if (body?.generate?.fill_byte !== undefined) return gzipOf(body.generate.fill_byte, body.generate.bytes!)
  const plain = body ? plainBody(body) : Buffer.alloc(0)
  return gzip ? gzipSync(plain) : plain
}

function plainBody(body: Body): Buffer {
  if (body.hex !== undefined) return Buffer.from(body.hex, 'hex')
  if (body.base64 !== undefined) return Buffer.from(body.base64, 'base64')
  if (body.text !== undefined) return Buffer.from(body.text)
  if (body.protobuf_of_json) return protobufOf(body.protobuf_of_json)
  if (body.generate) return generated(body.generate, body.as!)
  return Buffer.from(JSON.stringify(body.json))
}

/** Many equal bytes, compressed without ever being in memory: the test measures the receiver's memory, not its own. */
async function gzipOf(byte: number, size: number): Promise<Buffer> {
  const gzip = createGzip()
  const piece = Buffer.alloc(1 << 20, byte)
  for (let sent = 0; sent < size; sent += piece.length) gzip.write(piece)
  gzip.end()
  return Buffer.concat(await gzip.toArray())
}

function generated(what: Generate, as: 'json' | 'protobuf'): Buffer {
  if (what.nested_kvlist !== undefined || what.nested_array !== undefined) return nested(what, as)
  if (what.unknown_nested_brackets !== undefined) {
    const depth = what.unknown_nested_brackets
    const spans = JSON.stringify(requestOf([spanOf(0)])).slice(1)
    return Buffer.from(`{"x":${'['.repeat(depth)}${']'.repeat(depth)},${spans}`)
  }
  if (what.unknown_nested_groups !== undefined) {
    const depth = what.unknown_nested_groups
    return Buffer.concat([protobufOf(requestOf([spanOf(0)])), Buffer.from('c30c'.repeat(depth) + 'c40c'.repeat(depth), 'hex')])
  }
  const spans = Array.from({ length: what.spans! }, (_, i) => ({
    ...spanOf(i),
    ...(what.zero_span_id_every && (i + 1) % what.zero_span_id_every === 0 && { spanId: '0'.repeat(16) }),
    attributes: [{ key: 'pad', value: { stringValue: 'a'.repeat(what.attribute_bytes!) } }],
  }))
  return as === 'json' ? Buffer.from(JSON.stringify(requestOf(spans))) : protobufOf(requestOf(spans))
}

const spanOf = (i: number) => {
  const start = 1_764_000_000_000_000_000n + BigInt(i) * 1_000_000n
  return {
    traceId: (i + 1).toString(16).padStart(32, '0'),
    spanId: (i + 1).toString(16).padStart(16, '0'),
    name: `gen-${i}`,
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(start + 500_000n),
  }
}

const requestOf = (spans: object[]) => ({ resourceSpans: [{ scopeSpans: [{ spans }] }] })

/** Written by hand: no encoder goes ten thousand levels deep. */
function nested({ nested_kvlist = 0, nested_array = 0 }: Generate, as: 'json' | 'protobuf'): Buffer {
  const [before, after] = nested_array
    ? ['{"arrayValue":{"values":['.repeat(nested_array), ']}}'.repeat(nested_array)]
    : ['{"kvlistValue":{"values":[{"key":"k","value":'.repeat(nested_kvlist), '}]}}'.repeat(nested_kvlist)]
  if (as === 'json') {
    const span = JSON.stringify({ ...spanOf(0), attributes: [{ key: 'deep', value: 0 }] })
    return Buffer.from(
      JSON.stringify(requestOf([])).replace('[]', `[${span.replace('"value":0', `"value":${before}{"stringValue":"x"}${after}`)}]`),
    )
  }
  let value = field(1, Buffer.from('x'))
  for (let i = 0; i < nested_kvlist; i++) value = field(6, field(1, Buffer.concat([field(1, Buffer.from('k')), field(2, value)])))
  for (let i = 0; i < nested_array; i++) value = field(5, field(1, value))
  const { traceId, spanId } = spanOf(0)
  const attribute = field(9, Buffer.concat([field(1, Buffer.from('deep')), field(2, value)]))
  const span = Buffer.concat([field(1, Buffer.from(traceId, 'hex')), field(2, Buffer.from(spanId, 'hex')), attribute])
  return field(1, field(2, field(2, span)))
}

function field(number: number, bytes: Buffer): Buffer {
  const header = protobuf.Writer.create().uint32(number * 8 + 2).uint32(bytes.length).finish() // prettier-ignore
  return Buffer.concat([header, bytes])
}

/** The messages of proto/ by their full names. */
export const proto = loadProto()

function loadProto(): protobuf.Root {
  const { resolve } = createRequire(import.meta.url)
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) => resolve(`#proto/${target}`)
  root.loadSync(['opentelemetry/proto/collector/trace/v1/trace_service.proto', 'opentelemetry/proto/collector/logs/v1/logs_service.proto'])
  return root
}

export const requestType = (signal: 'traces' | 'logs') =>
  signal === 'traces'
    ? proto.lookupType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')
    : proto.lookupType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')

export const responseType = (signal: 'traces' | 'logs') =>
  signal === 'traces'
    ? proto.lookupType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse')
    : proto.lookupType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse')

/** Ids are hex in OTLP/JSON, where protobufjs expects base64. */
export function protobufOf(json: Json): Buffer {
  const type = requestType('resourceLogs' in json ? 'logs' : 'traces')
  const binaryIds = JSON.parse(JSON.stringify(json), (key, value: unknown) =>
    /^(traceId|spanId|parentSpanId)$/.test(key) ? Buffer.from(value as string, 'hex') : value,
  ) as Json
  return Buffer.from(type.encode(type.fromObject(binaryIds)).finish())
}
