import { expect, test } from 'vitest'

import { itemsOf, rowsIn } from '../test/rows.ts'
import { traces, type SpanSpec } from '../test/spans.ts'
import type { Limits, OpenRollout } from './open_rollout.ts'
import { heldItems, openRollouts } from './open_rollouts.ts'
import { fromJson } from './otlp_json.ts'
import { readRaw } from './read.ts'
import { scan } from './scan.ts'
import { spanMemory } from './span_memory.ts'

const LIMITS: Limits = {
  root_grace: 1_000,
  idle_timeout: 60_000,
  max_age: 600_000,
  max_spans: 100,
  max_bytes: 1e6,
}

/** Open rollouts, and the memory of their spans. */
function opened(limits: Partial<Limits> = {}, limit = 1e6, segmentBytes?: number) {
  const memory = spanMemory({ limit, ...(segmentBytes && { segmentBytes }) })
  return Object.assign(openRollouts({ ...LIMITS, ...limits }, memory), { memory })
}

const batchOf = (...spans: SpanSpec[]) => scan('traces', fromJson('traces', traces('t', spans))).batch

function add(open: ReturnType<typeof opened>, key: string, spans: SpanSpec[], now: number, rooted = false) {
  const batch = batchOf(...spans)
  const rollout = open.get(key, now)
  rollout.rooted ||= rooted
  open.add(rollout, batch, rowsIn(open.memory, batch), itemsOf(spans.map((_, i) => i)), now)
  return rollout
}

const namesOf = ({ held }: OpenRollout) => [...heldItems([held!], readRaw)].map((item) => 'name' in item && item.name)

const due = (open: ReturnType<typeof opened>, now: number) => open.takeDue(now).map(({ rollout, closed_by }) => [rollout.key, closed_by])

test('a rollout whose root has ended is due once no span came for root_grace', () => {
  const open = opened()
  add(open, 'a', [{ id: 'root' }], 0, true)
  add(open, 'a', [{ id: 'child' }], 900)
  expect(due(open, 1_899)).toEqual([])
  expect(due(open, 1_900)).toEqual([['a', 'root']])
  expect(open.size).toBe(0)
})

test.each<[string, Partial<Limits>, number]>([
  ['idle', { idle_timeout: 5_000 }, 5_000],
  ['max_age', { idle_timeout: 1e9, max_age: 7_000 }, 7_000],
  ['max_spans', { max_spans: 2 }, 0],
  ['max_bytes', { max_bytes: 50 }, 0],
])('a rollout without a root is closed by %s', (reason, limits, now) => {
  const open = opened(limits)
  add(open, 'a', [{ id: 'one' }, { id: 'two' }], 0)
  expect(due(open, now - 1)).toEqual(now === 0 ? [['a', reason]] : [])
  expect(due(open, now)).toEqual(now === 0 ? [] : [['a', reason]])
})

test('an explicit end is due at once, and what comes after it is late', () => {
  const open = opened()
  const rollout = add(open, 'a', [{ id: 'one' }], 0)
  rollout.ended = true
  open.lookSoon(rollout)
  expect(due(open, 0)).toEqual([['a', 'end']])
  add(open, 'a', [{ id: 'two' }], 10)
  expect(due(open, 500)).toEqual([])
  expect(due(open, 1_010)).toEqual([['a', 'late']])
})

test('past the memory budget the oldest rollouts are let go', () => {
  const open = opened({}, 2_000, 1_000)
  const payload = { pad: 'x'.repeat(500) }
  for (const n of [1, 2, 3, 4, 5, 6]) add(open, `r${n}`, [{ id: 'a', attributes: payload }], n)
  const rollouts = open.takeDue(1e9).map(({ rollout }) => rollout)
  expect(rollouts).toHaveLength(6)
  expect(open.released).toBeGreaterThan(0)
  expect(open.released).toBeLessThan(6)
  const held = rollouts.map(({ held }) => held !== null)
  expect(held).toEqual([...held].sort((a, b) => Number(a) - Number(b)))
  expect(namesOf(rollouts.at(-1)!)).toEqual(['a'])
})

test('their bytes leave with the rollouts', () => {
  const open = opened()
  for (const key of ['a', 'b', 'c']) add(open, key, [{ id: 'one' }], 0, true)
  open.letGo(open.get('b', 0))
  expect(open.takeDue(5_000)).toHaveLength(3)
  expect(open.bytes).toBe(0)
})

test('a rollout that could not be closed comes back with what arrived meanwhile', () => {
  const open = opened()
  add(open, 'a', [{ id: 'one' }], 0, true)
  const [taken] = open.takeDue(1_000)
  add(open, 'a', [{ id: 'two' }], 1_100)
  open.restore(taken!.rollout)
  const [again] = open.takeDue(2_100)
  expect(again!.closed_by).toBe('root')
  expect(namesOf(again!.rollout)).toEqual(['one', 'two'])
  expect(open.bytes).toBe(0)
})

test('spans that came before the rollout id of their trace was known join it', () => {
  const open = opened()
  add(open, 'trace', [{ id: 'child' }], 0)
  add(open, 'rollout', [{ id: 'other' }], 5)
  open.rename('trace', 'rollout')
  open.rename('unknown', 'rollout')
  expect(open.size).toBe(1)
  expect(open.get('rollout', 9).count).toBe(2)
  expect(open.bytes).toBe(open.get('rollout', 9).bytes)
})
