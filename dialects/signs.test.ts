// Asking only the dialects that a span shows signs of gives what asking all of them gives: on every capture, and on spans made of their pieces.

import { readdirSync, readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { readDocument } from '../data/document.ts'
import { itemReader } from '../data/item_reader.ts'
import { fromJson } from '../data/otlp_json.ts'
import { parseJson } from '../data/parse_json.ts'
import { readRaw } from '../data/read.ts'
import { readItems } from '../data/reading.ts'
import { hintOfItem } from '../data/routing.ts'
import { scan } from '../data/scan.ts'
import { askerFor } from '../data/signs.ts'
import type { Item, Span } from '../data/span.ts'
import { rawItem } from '../data/span_batch.ts'
import { seeded } from '../test/random.ts'
import { dialects } from './index.ts'

const folder = new URL('../test/fixtures/spans/', import.meta.url)
const documents = readdirSync(folder)
  .filter((file) => /^(?!expected).*\.json$/.test(file))
  .map((file) => readFileSync(new URL(file, folder), 'utf8'))
const captured = documents.flatMap((text) => readDocument(text).items)
const spans = captured.filter((item): item is Span => item.signal === 'span')

/** Keys that no capture has. */
const RARE = [
  'agentlightning.reward',
  'agentlightning.reward.0.value',
  'agentops.task.output',
  'annotations.0.annotation.score',
  'session.evaluations.0.evaluation.score',
  'trace.annotations.1.annotation.label',
  'logfire.feedback.name',
  'rl.reward.score',
  'gen_ai.latency.e2e',
]
const NAMES = ['agentlightning.annotation', 'rl.sample', 'running tool', 'agent run', 'execute_tool x', 'raw_gen_ai_request', 'call_llm']

function mixed(random: (n: number) => number): Span {
  const any = () => spans[random(spans.length)]!
  const attributes = Object.entries(any().attributes).concat(Object.entries(any().attributes))
  const kept = attributes.filter(() => random(3) === 0)
  if (random(3) === 0) kept.push([RARE[random(RARE.length)]!, random(2) === 0 ? 0.5 : '{"type": "reward", "value": 1}'])
  return {
    ...any(),
    name: random(4) === 0 ? NAMES[random(NAMES.length)]! : any().name,
    scope: any().scope,
    attributes: Object.fromEntries(kept),
    events: random(8) === 0 ? [{ name: 'gen_ai.evaluation.result', time: 1n, attributes: {} }] : any().events,
  }
}

const ask = askerFor(dialects)
const matching = (item: Item, asked = dialects) => asked.find(({ matches }) => matches(item))?.name
const rewards = (item: Item, asked = dialects) =>
  asked.flatMap(({ name, rewards }) => (rewards?.(item) ?? []).map((reading) => ({ name, ...reading })))

test('on every capture', () => {
  for (const item of captured) {
    const { readers, carriers } = ask(item)
    expect(matching(item, readers)).toBe(matching(item))
    expect(rewards(item, carriers)).toEqual(rewards(item))
  }
})

test('on spans of mixed attributes, names, scopes and events', () => {
  const random = seeded(7)
  const met = new Set<string | undefined>()
  for (let i = 0; i < 5_000; i++) {
    const item = mixed(random)
    const { readers, carriers } = ask(item)
    met.add(matching(item))
    expect(matching(item, readers)).toBe(matching(item))
    expect(rewards(item, carriers)).toEqual(rewards(item))
  }
  expect(met.size).toBeGreaterThan(15)
})

test('reading of the bytes of a span only what somebody wants gives what reading all of it gives', () => {
  const read = itemReader(dialects)
  let spared = 0
  for (const text of documents) {
    const raws = (['traces', 'logs'] as const).flatMap((signal) => {
      const { batch } = scan(signal, fromJson(signal, parseJson(text)))
      return Array.from({ length: batch.count }, (_, i) => rawItem(batch, i))
    })
    const whole = raws.map(readRaw)
    const wanted = raws.map(read)
    expect(readItems(wanted, dialects)).toEqual(readItems(whole, dialects))
    wanted.forEach((item, i) => {
      const said = 'attributes' in item ? item : { attributes: {}, resource: item.resource.attributes }
      if (Object.keys(said.attributes).length < Object.keys(whole[i]!.attributes).length) spared++
      expect(hintOfItem(said, 'session')).toEqual(hintOfItem(whole[i]!, 'session'))
    })
  }
  expect(spared).toBeGreaterThan(0)
})
