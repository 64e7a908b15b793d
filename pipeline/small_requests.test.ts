import { setTimeout as sleep } from 'node:timers/promises'

import { expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { itemName } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { traces } from '../test/spans.ts'
import { createAdmission } from './admission.ts'
import { Refused } from './component.ts'
import { smallRequests, type SmallRequests } from './small_requests.ts'

const KB = 1_024
const request = (name: string, bytes = 0): Buffer => fromJson('traces', traces('t', [{ id: 'a', name: name.padEnd(bytes, '.') }]))
const names = (batch: SpanBatch) => Array.from({ length: batch.count }, (_, i) => itemName(batch, i).replace(/\.+$/, ''))

/** `groups` has the spans of each group; `alone` what was taken by itself. */
function collecting({ together = async () => true, mib = 64 }: { together?: SmallRequests['together']; mib?: number } = {}) {
  const groups: string[][] = []
  const alone: Buffer[] = []
  const copy = smallRequests({
    signal: 'traces',
    lease: createAdmission({ request_limit_mib: mib }, () => {})(),
    success: Buffer.from('all'),
    together(batch, requests) {
      groups.push(names(batch))
      return together(batch, requests)
    },
    alone(message, settled) {
      alone.push(Buffer.from(message))
      if (message.length < 10) settled(Buffer.alloc(0), new Error('too short'))
      else setImmediate(settled, Buffer.from('alone'))
    },
  })
  /** What it is told, or undefined where no copy is made. */
  function take(message: Buffer): Promise<string> | undefined {
    const memory = Buffer.concat([Buffer.from('x'), message, Buffer.from('y')])
    let settled: (text: string) => void
    const told = new Promise<string>((resolve) => (settled = resolve))
    const isTaken = copy(memory, 1, memory.length - 1, (answer, error) => settled(error ? String(error) : Buffer.from(answer).toString()))
    memory.fill(0xee) // whoever owns it uses it again
    return isTaken ? told : undefined
  }
  return { take, groups, alone }
}

test('small requests of one turn of the event loop are one, those of the next another', async () => {
  const { take, groups } = collecting()
  expect(await Promise.all(['a', 'b', 'c'].map((name) => take(request(name))))).toEqual(['all', 'all', 'all'])
  await take(request('d'))
  expect(groups).toEqual([['a', 'b', 'c'], ['d']])
})

test('no copy is made of a larger one', () => {
  const { take } = collecting()
  expect(take(request('a', 17 * KB))).toBeUndefined()
})

test('where one has a fault, each is taken by itself', async () => {
  const { take, groups, alone } = collecting()
  const requests = [request('a'), Buffer.from([10, 5]), request('b')]
  expect(await Promise.all(requests.map(take))).toEqual(['alone', 'Error: too short', 'alone'])
  expect(alone).toEqual(requests)
  expect(groups).toEqual([])
})

test('where their group is not taken, each is taken by itself, or all are refused', async () => {
  const apart = collecting({ together: async () => false })
  expect(await Promise.all(['a', 'b'].map((name) => apart.take(request(name))))).toEqual(['alone', 'alone'])
  const refused = collecting({ together: () => Promise.reject(new Refused('full')) })
  expect(await Promise.all(['a', 'b'].map((name) => refused.take(request(name))))).toEqual(['Refused: full', 'Refused: full'])
  expect(refused.alone).toEqual([])
})

test('a group holds its memory until it is settled, and that is bounded', async () => {
  let release = () => {}
  const stored = new Promise<boolean>((resolve) => (release = () => resolve(true)))
  const seen: SpanBatch[] = []
  const { take } = collecting({ together: (batch) => (seen.push(batch), stored) })
  const one = request('a', 15 * KB)
  const told: (Promise<string> | undefined)[] = []
  for (let turn = 0; turn < 24; turn++) {
    for (let i = 0; i < 100; i++) told.push(take(one))
    await sleep(0)
  }
  const taken = told.filter((one) => one !== undefined)
  expect(taken.length).toBeGreaterThan(1_500)
  expect(taken.length).toBeLessThan(2_300)
  expect(seen.reduce((sum, { count }) => sum + count, 0)).toBe(taken.length)
  release()
  expect(new Set(await Promise.all(taken))).toEqual(new Set(['all']))
  expect(take(one)).toBeDefined()
})

test('no more is taken than the receiver may hold', async () => {
  const { take } = collecting({ mib: 1 })
  const told = Array.from({ length: 100 }, () => take(request('a', 15 * KB)))
  expect(told.filter((one) => one === undefined).length).toBeGreaterThan(30)
  await Promise.all(told)
  expect(take(request('a'))).toBeDefined()
})
