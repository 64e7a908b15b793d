// Every real capture reads as test/fixtures/spans/expected.json says, in full.

import { readdirSync, readFileSync } from 'node:fs'

import { describe, expect, test } from 'vitest'

import { readDocument } from '../data/document.ts'
import { expectedShape } from '../data/expected_shape.ts'
import { itemReader, type Stranger } from '../data/item_reader.ts'
import { fromJson } from '../data/otlp_json.ts'
import { parseJson } from '../data/parse_json.ts'
import { readItems } from '../data/reading.ts'
import { scan } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import { rawItem } from '../data/span_batch.ts'
import { seeded } from '../test/random.ts'
import { dialects } from './index.ts'

const folder = new URL('../test/fixtures/spans/', import.meta.url)
const load = (name: string) => readFileSync(new URL(`${name}.json`, folder), 'utf8')
const expected = JSON.parse(load('expected')) as Record<string, object>

const read = (name: string, text = load(name)) => readingOf(readDocument(text).items)

/** The counts of spans and traces are a hint for people, and need not match exactly. */
function readingOf(items: Item[]) {
  const { llmCalls, tools, rewards, duplicates } = expectedShape(readItems(items, dialects))
  return { llmCalls, tools, rewards, duplicates }
}

/** Every list of spans and of their attributes backwards; log records keep their order, which has a meaning. */
const backwards = (text: string): string =>
  JSON.stringify(JSON.parse(text), (key, value) =>
    ['resourceSpans', 'scopeSpans', 'spans', 'attributes'].includes(key) ? value.toReversed() : value,
  )

/** Every span and trace under another id, by turning its digits around. */
const renamed = (text: string): string =>
  JSON.stringify(JSON.parse(text), (key, value) =>
    ['traceId', 'spanId', 'parentSpanId'].includes(key) && value !== '' ? [...value].reverse().join('') : value,
  )

interface Spans {
  readonly resourceSpans?: readonly { readonly scopeSpans: readonly { readonly spans: readonly Record<string, unknown>[] }[] }[]
}

/** Weeks later, each span in a request of its own, in any order, its attributes too, some twice; and beside each the span of a stranger below it. */
function inPieces(text: string, random: (n: number) => number): Item[] {
  const { resourceSpans = [], ...others } = JSON.parse(text, (key, value) =>
    key.endsWith('UnixNano') && Number(value) > 0 ? String(BigInt(value as string) + WEEKS) : value,
  ) as Spans
  const requests = resourceSpans.flatMap(({ scopeSpans, ...resource }) =>
    scopeSpans.flatMap(({ spans, ...scope }) =>
      spans.flatMap((span) => {
        const sent = { ...span, attributes: shuffled((span.attributes ?? []) as unknown[], random) }
        const stranger = {
          ...sent,
          spanId: strangerBelow(span.spanId as string),
          parentSpanId: span.spanId,
          name: 'GET /',
          ...NOTHING_SAID,
        }
        const request = { resourceSpans: [{ ...resource, scopeSpans: [{ ...scope, spans: [sent] }] }] }
        const beside = { resourceSpans: [{ ...resource, scopeSpans: [{ scope: { name: 'http' }, spans: [stranger] }] }] }
        return [request, beside, ...(random(4) === 0 ? [request] : [])]
      }),
    ),
  )
  return [...shuffled(requests, random), others].flatMap((request) => readDocument(JSON.stringify(request)).items)
}

const WEEKS = 37n * 86_400_000_000_000n
const NOTHING_SAID = { attributes: [{ key: 'http.request.method', value: { stringValue: 'GET' } }], events: [], links: [], status: {} }
const strangerBelow = (id: string): string => `5${id.slice(1, -1)}${id.endsWith('5') ? 'a' : '5'}`

const shuffled = <T>(list: readonly T[], random: (n: number) => number): T[] =>
  list
    .map((item) => ({ item, at: random(2 ** 30) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)

/** The same run by others about something else: every name and id of what was captured has its own stand-in, as long as it is. */
const STAND_INS: Readonly<Record<string, string>> = {
  get_weather: 'find_it_out',
  Atlanti: 'Gondwän',
  atlanti: 'gondwan',
  Paris: 'Hànội',
  paris: 'hanoi',
  'qwen2.5-7b-instruct': 'zebra-13b-zum-Reden',
  'chatcmpl-leyden': 'cmpl_of_another',
  resp_leyden: 'answer_else',
  req_leyden: 'asked_else',
}
const STAND_IN = new RegExp(Object.keys(STAND_INS).join('|').replaceAll('.', '\\.'), 'g')
const replaced = (text: string): string => text.replace(STAND_IN, (name) => STAND_INS[name]!)
const inBytes = (base64: string): string => Buffer.from(replaced(Buffer.from(base64, 'base64').toString())).toString('base64')
const elsewhere = (text: string): string => replaced(text.replace(/(?<="bytesValue":\s*")[^"]*/g, inBytes))

/** Those that the whole document would give, in its order, as the rollouts connector reads them. */
function itemsInBytes(text: string): (Item | Stranger)[] {
  const readOne = itemReader(dialects)
  return (['traces', 'logs'] as const).flatMap((signal) => {
    const { batch } = scan(signal, fromJson(signal, parseJson(text)))
    return Array.from({ length: batch.count }, (_, i) => readOne(rawItem(batch, i)))
  })
}

function right(name: string, text = JSON.stringify(expected[name])) {
  const { llmCalls, tools, rewards, duplicates } = JSON.parse(text) as ReturnType<typeof read>
  return { llmCalls, tools, rewards, duplicates }
}

describe('each capture reads as it should', () => {
  const names = readdirSync(folder).flatMap((file) => (/^(?!expected).*\.json$/.test(file) ? [file.slice(0, -5)] : []))

  test.each(names)('%s', (name) => {
    expect(read(name)).toEqual(right(name))
  })

  test.each(names)('%s, in another order and with other ids', (name) => {
    expect(read(name, renamed(backwards(load(name))))).toEqual(right(name))
  })

  test.each(names)('%s, of another run', (name) => {
    expect(read(name, elsewhere(load(name)))).toEqual(right(name, elsewhere(JSON.stringify(expected[name]))))
  })

  test.each(names)('%s, in pieces in any order, beside spans of others', (name) => {
    expect(readingOf(inPieces(load(name), seeded(name.length)))).toEqual(right(name))
  })

  test.each(names)('%s, item by item from its bytes, as the whole document', (name) => {
    const { items } = readDocument(load(name))
    expect(readItems(itemsInBytes(load(name)), dialects)).toEqual(readItems(items, dialects))
  })

  test('every capture has its right reading', () => {
    expect(names.sort()).toEqual(Object.keys(expected).sort())
  })
})
