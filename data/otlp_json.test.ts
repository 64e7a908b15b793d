import protobuf from 'protobufjs'
import { expect, test } from 'vitest'

import { proto } from '../test/otlp/bodies.ts'
import { encode, decode, fromJson, toJson } from './otlp_json.ts'
import * as messages from './otlp_messages.ts'
import { readItem, scan } from './scan.ts'

const IDS = { traceId: '0AF7651916CD43DD8448EB211C80319C', spanId: 'b7ad6b7169203331' }
const request = (span: object) => ({ resourceSpans: [{ scopeSpans: [{ spans: [{ ...IDS, ...span }] }] }] })
const attributesOf = (attributes: object[]) => readItem(scan('traces', fromJson('traces', request({ attributes }))).batch, 0).attributes

test.each([
  [{ name: 42 }, 'resourceSpans[0].scopeSpans[0].spans[0].name: must be a string (got 42)'],
  [{ kind: 'CLIENT' }, 'resourceSpans[0].scopeSpans[0].spans[0].kind: must be an integer, enum names are not allowed (got "CLIENT")'],
  [{ events: {} }, 'resourceSpans[0].scopeSpans[0].spans[0].events: must be an array (got an object)'],
  [{ flags: -1 }, 'resourceSpans[0].scopeSpans[0].spans[0].flags: must be an integer from 0 to 4294967295 (got -1)'],
  [
    { startTimeUnixNano: '1e9' },
    'resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano: must be an integer from 0 to 18446744073709551615 (got "1e9")',
  ],
  [{ attributes: [{ key: 'k', value: 'v' }] }, 'resourceSpans[0].scopeSpans[0].spans[0].attributes[0].value: must be an object (got "v")'],
  [
    { attributes: [{ key: 'k', value: { intValue: 1, stringValue: '1' } }] },
    'resourceSpans[0].scopeSpans[0].spans[0].attributes[0].value: holds more than one value',
  ],
])('%j is refused with the place', (span, message) => {
  expect(() => fromJson('traces', request(span))).toThrow(message)
})

test('values keep their kinds', () => {
  const values = {
    text: { stringValue: '' },
    whole: { intValue: '-9007199254740993' },
    number: { intValue: 12 },
    double: { doubleValue: '-Infinity' },
    yes: { boolValue: true },
    bytes: { bytesValue: 'AP-_8A' },
    list: { arrayValue: { values: [{}, { stringValue: 'a' }] } },
    map: { kvlistValue: { values: [{ key: 'a', value: { intValue: '1' } }] } },
    nothing: null,
  }
  expect(attributesOf(Object.entries(values).map(([key, value]) => ({ key, value })))).toEqual({
    text: '',
    whole: -9007199254740993n,
    number: 12,
    double: -Infinity,
    yes: true,
    bytes: new Uint8Array([0x00, 0xff, 0xbf, 0xf0]),
    list: [null, 'a'],
    map: { a: 1 },
    nothing: null,
  })
})

test('ids are hex in either case, and names are camelCase only', () => {
  const { batch } = scan('traces', fromJson('traces', request({ parent_span_id: IDS.spanId, name: 'n' })))
  expect(readItem(batch, 0)).toMatchObject({ trace_id: IDS.traceId.toLowerCase(), parent_span_id: '', name: 'n' })
})

test('half a surrogate pair is stored as U+FFFD', () => {
  expect(attributesOf([{ key: 'k', value: { stringValue: 'a\ud800b' } }])).toEqual({ k: 'a\ufffdb' })
})

test('a resource keeps what its envelope says beside attributes', () => {
  const resource = { droppedAttributesCount: 2, entityRefs: [{ type: 'service', idKeys: ['service.name', 'service.version'] }] }
  expect(decode(messages.Resource, encode(messages.Resource, resource))).toEqual(resource)
})

test('a scope that two resources share stands under each of them', () => {
  const scopeSpans = (name: string) => [{ scope: { name: 'library' }, spans: [{ ...IDS, traceId: IDS.traceId.toLowerCase(), name }] }]
  const service = (name: string) => ({ attributes: [{ key: 'service.name', value: { stringValue: name } }] })
  const document = {
    resourceSpans: [
      { resource: service('a'), scopeSpans: scopeSpans('one') },
      { resource: service('b'), scopeSpans: scopeSpans('two') },
    ],
  }
  expect(toJson(scan('traces', fromJson('traces', document)).batch)).toEqual(document)
})

/** The messages of google.rpc are not in proto/. */
const { Any: _any, BadRequest: _bad, RetryInfo: _retry, RpcStatus: _status, ...otlp } = messages

test.each(Object.entries(otlp))('the fields of %s are those of proto/', (_name, { name, fields }) => {
  const declared = proto.lookupType(name).fieldsArray.map((field) => {
    const type = field.resolve().resolvedType
    return [field.name, field.id, field.repeated, type instanceof protobuf.Enum ? 'enum' : (type?.name ?? field.type)]
  })
  const written = fields.map(({ name, number, repeated, type }) => [name, number, repeated, typeName(type)])
  expect(written.sort()).toEqual(declared.sort())
})

function typeName(type: messages.Message | messages.Scalar): string {
  if (typeof type !== 'string') return type.name
  return type === 'trace_id' || type === 'span_id' ? 'bytes' : type
}
