import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { drawToken, uniforms } from './sampling.ts'

const random = seeded(7)
const logitsOf = (size: number) => Float32Array.from({ length: size }, () => (random(1000) - 500) / 100)
const ALL = { temperature: 1, top_p: 1, top_k: 0, top_logprobs: 0 }

/** The same distribution, written down as the definition says. */
function distribution(logits: Float32Array, { temperature, top_p, top_k }: typeof ALL): Map<number, number> {
  const weights = [...logits].map((logit, id) => ({ id, p: Math.exp(logit / temperature) })).sort((a, b) => b.p - a.p || a.id - b.id)
  const first = weights.slice(0, top_k || undefined)
  const mass = first.reduce((sum, { p }) => sum + p, 0)
  let before = 0
  const kept = first.filter(({ p }) => {
    const in_nucleus = before < top_p * mass
    before += p
    return in_nucleus
  })
  const total = kept.reduce((sum, { p }) => sum + p, 0)
  return new Map(kept.map(({ id, p }) => [id, p / total]))
}

test('the token and its log-probability are of the distribution left by temperature, top_k and top_p', () => {
  for (let round = 0; round < 400; round++) {
    const logits = logitsOf(2 + random(60))
    const how = {
      temperature: (1 + random(30)) / 10,
      top_p: [1, 0.95, 0.5, 0.01][random(4)]!,
      top_k: [0, 1, 5, 1000][random(4)]!,
      top_logprobs: 5,
    }
    const wanted = distribution(logits, how)
    const { id, logprob, top } = drawToken(logits, how, random(10_000) / 10_000)
    expect(Math.exp(logprob)).toBeCloseTo(wanted.get(id)!, 5)
    expect(top.map((token) => token.id)).toEqual([...wanted.keys()].slice(0, 5))
    for (const token of top) expect(Math.exp(token.logprob)).toBeCloseTo(wanted.get(token.id)!, 5)
  }
})

test('tokens come as often as their log-probabilities say', () => {
  const logits = Float32Array.of(1, 0, 2, -1, 1.5)
  const uniform = uniforms(11)
  for (const how of [ALL, { ...ALL, temperature: 0.7, top_k: 4, top_p: 0.9 }]) {
    const counts = new Map<number, number>()
    for (let i = 0; i < 40_000; i++) {
      const { id } = drawToken(logits, how, uniform())
      counts.set(id, (counts.get(id) ?? 0) + 1)
    }
    const wanted = distribution(logits, how)
    expect([...counts.keys()].sort()).toEqual([...wanted.keys()].sort())
    for (const [id, p] of wanted) expect(Math.abs(counts.get(id)! / 40_000 - p)).toBeLessThan(0.01)
  }
})

test('where not all is allowed, it is the distribution of what is, and what share of all that had is told', () => {
  for (let round = 0; round < 200; round++) {
    const logits = logitsOf(2 + random(60))
    const allowed = new Uint32Array(2)
    for (let id = 0; id < logits.length; id++) if (id === 1 || random(2) === 0) allowed[id >>> 5]! |= 1 << (id & 31)
    const how = { ...ALL, temperature: (1 + random(30)) / 10, top_p: [1, 0.7][random(2)]!, top_k: [0, 3][random(2)]!, top_logprobs: 3 }
    const left = logits.map((logit, id) => (allowed[id >>> 5]! & (1 << (id & 31)) ? logit : -Infinity))
    const wanted = distribution(left, how)
    const { id, logprob, top, share } = drawToken(logits, how, random(10_000) / 10_000, allowed)
    expect(Math.exp(logprob)).toBeCloseTo(wanted.get(id)!, 5)
    expect(top.map((token) => token.id)).toEqual([...wanted].flatMap(([one, p]) => (p > 0 ? [one] : [])).slice(0, 3))
    const sum = (of: Float32Array) => of.reduce((total, logit) => total + Math.exp(logit / how.temperature), 0)
    expect(share).toBeCloseTo(sum(left) / sum(logits), 5)
  }
  expect(drawToken(Float32Array.of(9, 1, 2), { ...ALL, temperature: 0 }, 0, Uint32Array.of(0b110)).id).toBe(2)
})

test('temperature 0 takes the likeliest, whatever else is asked, and tells its probability at temperature 1', () => {
  const logits = Float32Array.of(0, 3, 3, 1)
  const { id, logprob, top } = drawToken(logits, { temperature: 0, top_p: 0.1, top_k: 1, top_logprobs: 2 }, 0.999)
  expect(id).toBe(1)
  expect(Math.exp(logprob)).toBeCloseTo(distribution(logits, ALL).get(1)!, 6)
  expect(top.map((token) => token.id)).toEqual([1, 2])
})

test('impossible tokens are never drawn, even at the edges of chance', () => {
  const logits = Float32Array.of(-Infinity, 5, -Infinity, 4, -Infinity)
  expect(drawToken(logits, ALL, 0).id).toBe(1)
  expect(drawToken(logits, ALL, 1 - 2 ** -53).id).toBe(3)
})

test.each([[[NaN, 1]], [[1, NaN]], [[Infinity, 1]], [[-Infinity, -Infinity]]])('logits of %j are an error', (logits) => {
  expect(() => drawToken(Float32Array.from(logits), ALL, 0.5)).toThrow('no numbers')
})

test('uniform numbers repeat by seed, differ between seeds, and are spread evenly', () => {
  const take = (seed: number, count = 4) => Array.from({ length: count }, uniforms(seed))
  expect(take(5)).toEqual(take(5))
  expect(new Set([0, 1, 2, -1, 2 ** 32, 2 ** 40, 2 ** 53 - 1].map((seed) => take(seed, 1)[0])).size).toBe(7)
  const buckets = new Array<number>(10).fill(0)
  for (const u of take(1, 20_000)) buckets[Math.floor(u * 10)]!++
  for (const count of buckets) expect(Math.abs(count - 2000)).toBeLessThan(200)
})

test('fixtures/rl/18: what is drawn from at temperature 0.7 and top_p 0.9', () => {
  const { behaviour_policy } = JSON.parse(readFileSync('test/fixtures/rl/18_optim_sampling.json', 'utf8'))
  const { logits, temperature, logprobs_T, top_p, behaviour_probs } = behaviour_policy
  const drawn = (limit: number) => drawToken(Float32Array.from(logits), { ...ALL, temperature, top_p: limit, top_logprobs: 5 }, 0).top
  for (const { id, logprob } of drawn(1)) expect(logprob).toBeCloseTo(logprobs_T[id], 6)
  const kept = drawn(top_p)
  expect(kept.map(({ id }) => id)).toEqual([0, 1])
  for (const { id, logprob } of kept) expect(Math.exp(logprob)).toBeCloseTo(behaviour_probs[id], 6)
})
