import { expect, test } from 'vitest'

import { assemble } from '../data/assemble.ts'
import { fromJson, toJson } from '../data/otlp_json.ts'
import { policyFinder, selectPolicyCalls } from '../data/policy_calls.ts'
import { readItem, scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { dialects } from '../dialects/index.ts'
import { configure, conforms, logBatch, problems, spanBatch, testContext } from '../test/conformance.ts'
import { startLeyden } from '../test/leyden.ts'
import { chat, endOf, traces } from '../test/spans.ts'
import redaction from './redaction.ts'

conforms(redaction)

const MASK = '[REDACTED]'

/** What becomes of an attribute's text. */
function redacted(text: string, options: object = {}, key = 'input.value'): unknown {
  const out = configure(redaction, options).process(spanBatch([{ id: 'a', attributes: { [key]: text } }])) as SpanBatch
  return readItem(out, 0).attributes[key]
}

test.each([
  ['write to ada@example.com.', `write to ${MASK}.`],
  ['ada.lovelace+tag@mail.example.co.uk', MASK],
  ['mailto:ada%40example.com', `mailto:${MASK}`],
  ['jörg@müller.de', MASK],
  ['call +49 170 1234567 or (555) 123-4567', `call ${MASK} or ${MASK}`],
  ['555-123-4567', MASK],
  ['card 4111 1111 1111 1111, exp 12/30', `card ${MASK}, exp 12/30`],
  ...[
    '378282246310005',
    '5555555555554444',
    '2223003122003222',
    '6011000990139424',
    '30569309025904',
    '3530111333300000',
    '6200000000000005',
  ].map((card) => [card, MASK]),
  ['Authorization: Bearer abc123.def456-ghi789', `Authorization: ${MASK}`],
  ['OPENAI_API_KEY=sk-proj-abcdefghij0123456789', `OPENAI_API_KEY=${MASK}`],
  ['AKIAIOSFODNN7EXAMPLE', MASK],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4', MASK],
  ['postgres://app:hunter2@db/main', `postgres://app:${MASK}@db/main`],
  ['-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nend', `${MASK}\nend`],
])('%s', (text, expected) => {
  expect(redacted(text)).toBe(expected)
})

test.each([
  'card 4111 1111 1111 1112', // a wrong checksum
  '9007199254740993, 1234567812345670', // the right one by chance, and no network's
  '550e8400-e29b-41d4-a716-446655440000',
  '2026-11-29T20:15:00.000+00:00',
  '1764000000000000000',
  'chatcmpl-9x8y7z6w5v4u3t2s1r0q',
  'call_4111111111111111',
  '192.168.100.1000, 3.14159265358979',
  '@@ -1234,8 +1234,9 @@ const a = +1.5',
  'the bearer of this letter, risk-free and task-oriented',
  'npm i left-pad@1.3.0',
])('left alone: %s', (text) => {
  expect(redacted(text)).toBe(text)
})

test('JSON stays JSON, however deep: escapes, numbers, JSON within', () => {
  const inner = JSON.stringify({ to: 'ada@example.com', card: 4111111111111111, n: 12 })
  const messages = [{ role: 'user', parts: [{ type: 'text', content: 'line\nada@example.com "quoted"' }, { arguments: inner }] }]
  const [message] = JSON.parse(redacted(JSON.stringify(messages)) as string) as typeof messages
  expect(message!.parts[0]).toEqual({ type: 'text', content: `line\n${MASK} "quoted"` })
  expect(JSON.parse(message!.parts[1]!.arguments!)).toEqual({ to: MASK, card: MASK, n: 12 })
})

test('beside what is hidden in JSON, numbers stay as they were written, and those that are somebody’s are hidden', () => {
  const numbers =
    '"id": 9007199254740993, "long": -1234567890123456789, "float": 1.0, "small": 1e-05, "card": 1234567812345678, "list": [1.50, 0.1]'
  expect(redacted(`{"to": "ada@example.com", ${numbers}}`)).toBe(`{"to":"${MASK}",${numbers.replaceAll(/([:,]) /g, '$1')}}`)
  expect(redacted('{"card": 4111111111111111, "password": 12345678901234567890, "n": 1.0}')).toBe(
    `{"card":"${MASK}","password":"${MASK}","n":1.0}`,
  )
})

test('broken JSON, and JSON nested deeper than any stack, are read as text', () => {
  expect(redacted('[{"to": "ada@example.com"')).toBe(`[{"to": "${MASK}"`)
  const deep = '['.repeat(50_000) + '"ada@example.com"' + ']'.repeat(50_000)
  expect(redacted(deep)).toBe(deep.replace('ada@example.com', MASK))
})

test('every place of a span is reached: name, status, events, links, resource, scope, lists, maps, bytes', () => {
  const attributes = [
    { key: 'list', value: { arrayValue: { values: [{ stringValue: 'ada@example.com' }, { intValue: '7' }] } } },
    { key: 'map', value: { kvlistValue: { values: [{ key: 'to', value: { stringValue: 'ada@example.com' } }] } } },
    { key: 'bytes', value: { bytesValue: Buffer.from('ada@example.com').toString('base64') } },
    { key: 'number', value: { intValue: '4111111111111111' } },
  ]
  const span = {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    name: 'mail ada@example.com',
    attributes,
    events: [{ timeUnixNano: '1', name: 'sent to ada@example.com', attributes }],
    links: [{ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203332', attributes }],
    status: { code: 2, message: 'no such user ada@example.com' },
  }
  const other = { ...span, spanId: 'b7ad6b7169203333', name: 'clean', attributes: [], events: [], links: [], status: {} }
  const scopeSpans = [{ scope: { name: 's', attributes }, spans: [span, other] }]
  const request = { resourceSpans: [{ resource: { attributes }, scopeSpans, schemaUrl: 'https://opentelemetry.io/schemas/1.37.0' }] }
  const batch = scan('traces', fromJson('traces', request)).batch
  const out = JSON.stringify(toJson(configure(redaction).process(batch) as SpanBatch))
  const bytes = Buffer.from(MASK).toString('base64')
  const expected = JSON.stringify(toJson(batch))
    .replaceAll('ada@example.com', MASK)
    .replaceAll('{"intValue":"4111111111111111"}', `{"stringValue":"${MASK}"}`)
    .replaceAll(Buffer.from('ada@example.com').toString('base64'), bytes)
  expect(out).toBe(expected)
})

test('bodies of log records are reached, and what ends a rollout still does', () => {
  const record = (body: object) => ({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: '1', eventName: 'e', body }] }] }] })
  const processor = configure(redaction)
  const out = processor.process(logBatch(record({ stringValue: 'ada@example.com' }))) as SpanBatch
  expect(readItem(out, 0)).toMatchObject({ body: MASK, event_name: 'e' })
  const end = logBatch()
  expect(processor.process(end)).toBe(end)
})

test('values of blocked keys are hidden whole, in attributes and in JSON; own patterns wherever they match', () => {
  expect(redacted('hunter2', {}, 'db.password')).toBe(MASK)
  expect(redacted('{"user":"ada","API_KEY":"k","retry":true}')).toBe(`{"user":"ada","API_KEY":"${MASK}","retry":true}`)
  expect(redacted('case EMP-123456', { blocked_values: ['\\bEMP-\\d{6}\\b'] })).toBe(`case ${MASK}`)
  expect(redacted('ada@example.com', { detect: ['card'] })).toBe('ada@example.com')
  expect(problems(redaction, { blocked_values: ['('] })).toEqual([
    expect.stringContaining('blocked_values::0: must be a regular expression'),
  ])
})

test('with allowed keys, other attributes go', () => {
  const batch = spanBatch([{ id: 'a', attributes: { 'gen_ai.request.model': 'm', secret: 's' } }])
  const out = configure(redaction, { allowed_keys: ['gen_ai.*', 'service.name'] }).process(batch) as SpanBatch
  expect(readItem(out, 0)).toMatchObject({ attributes: { 'gen_ai.request.model': 'm' }, resource: { 'service.name': 'test-agent' } })
  expect(readItem(out, 0).attributes).not.toHaveProperty('secret')
})

test('a keyed hash keeps equal values equal; ids that join spans are hashed even without one', () => {
  const text = 'ada@example.com, bob@example.com, ada@example.com'
  const [ada, bob, again] = (redacted(text, { hash_key: 'k' }) as string).split(', ')
  expect(ada).toMatch(/^\[REDACTED:[a-p]{16}\]$/)
  expect([again, ada === bob]).toEqual([ada, false])
  expect(redacted(text, { hash_key: 'other' })).not.toContain(ada)
  const session = redacted('ada@example.com', {}, 'session.id')
  expect(session).toMatch(/^\[REDACTED:[a-p]{16}\]$/)
  expect([redacted('ada@example.com', {}, 'session.id'), redacted('bob@example.com', {}, 'session.id') === session]).toEqual([
    session,
    false,
  ])
})

test('a call in whose prompt something was hidden is flagged, and token ids that spell it go', () => {
  const ids = { prompt_token_ids: '[1,2,3]', response_token_ids: '[4]' }
  const spans = [chat('a', { prompt: 'I am ada@example.com', attributes: ids }), chat('b', { attributes: ids })]
  const batch = configure(redaction).process(spanBatch(spans)) as SpanBatch
  const items = Array.from({ length: batch.count }, (_, i) => readItem(batch, i))
  expect(items.map(({ attributes }) => 'prompt_token_ids' in attributes)).toEqual([false, true])
  const rollout = assemble(items, dialects, { key: 'r\0', closed_by: 'end', revision: 1, covered_until: 0 })
  expect(rollout.calls.map(({ flags }) => flags.includes('redacted'))).toEqual([true, false])
  const policy = { name: 'default', models: [], agents: [], endpoints: [], operations: ['chat'] }
  expect(selectPolicyCalls(rollout, policyFinder([policy])).rejects.map(({ reason }) => reason)).toEqual(['redacted'])
})

test.each(['gen_ai.input.messages', 'gen_ai.output.messages'])('hidden whole, %s flags its call too', (key) => {
  const batch = configure(redaction, { blocked_keys: [key] }).process(spanBatch([chat('a')])) as SpanBatch
  const rollout = assemble([readItem(batch, 0)], dialects, { key: 'r\0', closed_by: 'end', revision: 1, covered_until: 0 })
  expect(rollout.calls.map(({ flags }) => flags)).toEqual([['redacted']])
})

test('what is hidden is counted by rule, and a batch without anything to hide passes as it is', () => {
  const context = testContext()
  const processor = configure(redaction, {}, context)
  const batch = spanBatch()
  expect(processor.process(batch)).toBe(batch)
  expect(context.counts).toEqual({})
  processor.process(spanBatch([{ id: 'a', attributes: { 'input.value': 'ada@example.com, AKIAIOSFODNN7EXAMPLE' } }]))
  expect(context.counts).toEqual({ leyden_redacted_values: 2 })
})

test('in a pipeline before the connector, nothing of it is stored, and the rejected call says why', async () => {
  const leyden = await startLeyden('{processors: {redaction: }, service: {pipelines: {traces: {processors: [redaction]}}}}')
  try {
    await leyden.post(
      'traces',
      traces('t', [chat('a', { prompt: 'I am ada@example.com' })], { 'leyden.rollout.id': 'r', owner: 'ada@example.com' }),
    )
    await leyden.post('logs', endOf('r'))
    const rejects = await leyden.rows<{ reason: string }>(1, "SELECT reason FROM rejects WHERE rollout_id = 'r'")
    expect(rejects).toEqual([{ reason: 'redacted' }])
    const [kept] = await leyden.query(
      "SELECT count() AS spans, countIf(position(concat(payload, resource), 'ada@') > 0) AS leaks FROM spans WHERE signal = 'span'",
    )
    expect(kept).toMatchObject({ spans: 1, leaks: 0 })
  } finally {
    await leyden.remove()
  }
})
