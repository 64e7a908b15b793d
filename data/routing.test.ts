import { expect, test } from 'vitest'

import { traces } from '../test/spans.ts'
import { fromJson } from './otlp_json.ts'
import { factsTaker, hintOfItem, hintsOf, splitKey, type GroupBy } from './routing.ts'
import { readItem, scan } from './scan.ts'
import type { Item } from './span.ts'
import type { SpanBatch } from './span_batch.ts'

const batchOf = (attributes: Record<string, string | number>, resource: Record<string, string> = {}) =>
  scan('traces', fromJson('traces', traces('t', [{ id: 'a', attributes }], resource))).batch

const hintOf = (batch: SpanBatch, groupBy: GroupBy) => hintsOf(batch, groupBy)[0] ?? ''

test.each([
  [
    'agent-lightning ids before all others',
    { 'agentlightning.rollout_id': 'ro', 'agentlightning.attempt_id': 'at', 'leyden.rollout.id': 'x' },
    {},
    ['ro', 'at'],
  ],
  ['own ids', { 'leyden.rollout.id': 'ro', 'leyden.attempt.id': '2' }, {}, ['ro', '2']],
  ['ids on the resource', {}, { 'leyden.rollout.id': 'ro' }, ['ro', '']],
  ['the span before its resource', { 'leyden.rollout.id': 'own' }, { 'agentlightning.rollout_id': 'other' }, ['own', '']],
  [
    'headers that a LiteLLM proxy was sent',
    { 'metadata.requester_custom_headers': "{'x-rollout-id': 'ro', 'x-attempt-id': 'at'}" },
    {},
    ['ro', 'at'],
  ],
  ['an id that is a number', { 'leyden.rollout.id': 17 }, {}, ['17', '']],
])('a hint is read from %s, on bytes and on objects alike', (_what, attributes, resource, [rollout_id, attempt_id]) => {
  const batch = batchOf(attributes as Record<string, string>, resource as Record<string, string>)
  expect(splitKey(hintOf(batch, 'trace'))).toEqual({ rollout_id, attempt_id })
  expect(hintOfItem(readItem(batch, 0), 'trace')).toBe(hintOf(batch, 'trace'))
})

function factsOf(...items: readonly Item[]) {
  const { take, facts } = factsTaker()
  items.forEach(take)
  return facts()
}

test('a session makes a rollout only where the user said so', () => {
  const batch = batchOf({ 'gen_ai.conversation.id': 'c1' })
  expect(hintOf(batch, 'trace')).toBe('')
  expect(splitKey(hintOf(batch, 'session')).rollout_id).toBe('c1')
})

test('task, group, size and mode come from the first item that says them', () => {
  const items = [
    batchOf({ 'leyden.task.id': 't1', 'leyden.group.size': '4' }),
    batchOf({ 'leyden.task.id': 't2', 'leyden.mode': 'val' }, { 'leyden.group.id': 'g' }),
  ].map((batch) => readItem(batch, 0))
  expect(factsOf(...items)).toEqual({ task_id: 't1', group_id: 'g', group_size: 4, mode: 'val' })
})

test.each(['0', '-3', 'four', '1.5', '5000000000'])('a group size of %s says nothing', (size) => {
  expect(factsOf(readItem(batchOf({ 'leyden.group.size': size }), 0)).group_size).toBe(0)
})
