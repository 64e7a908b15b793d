// Every real capture reads as test/fixtures/spans/expected.json says, in full.

import { readdirSync, readFileSync } from 'node:fs'

import { describe, expect, test } from 'vitest'

import { readDocument } from '../data/document.ts'
import { expectedShape } from '../data/expected_shape.ts'
import { readItems } from '../data/reading.ts'
import { dialects } from './index.ts'

const folder = new URL('../test/fixtures/spans/', import.meta.url)
const load = (name: string) => readFileSync(new URL(`${name}.json`, folder), 'utf8')
const expected = JSON.parse(load('expected')) as Record<string, object>

/** The counts of spans and traces are a hint for people, and need not match exactly. */
function read(name: string, text = load(name)) {
  const { llmCalls, tools, rewards, duplicates } = expectedShape(readItems(readDocument(text).items, dialects))
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

function right(name: string) {
  const { llmCalls, tools, rewards, duplicates } = expected[name] as ReturnType<typeof read>
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

  test('every capture has its right reading', () => {
    expect(names.sort()).toEqual(Object.keys(expected).sort())
  })
})
