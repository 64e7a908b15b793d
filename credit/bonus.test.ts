import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { bonus, capped, type AskedTool } from './bonus.ts'

const tool = (call: number, key: string, air_class: AskedTool['air_class']): AskedTool => ({ call, key, air_class })

test('amounts are cut at the cap: fixtures/rl/12', () => {
  const { cap, bonus, expected } = JSON.parse(readFileSync('test/fixtures/rl/12_shaping.json', 'utf8')).capped_bonus
  capped(bonus, cap).forEach((amount, i) => expect(amount).toBeCloseTo(expected[i], 9))
})

test('a success pays, an error of the policy costs, an outage does neither', () => {
  const tools = [tool(0, 'a', 'ok'), tool(1, 'b', 'policy_error'), tool(2, 'c', 'env_error'), tool(3, 'd', 'empty')]
  expect(bonus(tools, 5, 0.2)).toEqual([0.1, -0.1, 0, 0, 0])
})

test('a repeated success pays nothing, a repeated error costs half', () => {
  const tools = [tool(0, 'a', 'ok'), tool(1, 'a', 'ok'), tool(2, 'b', 'policy_error'), tool(3, 'b', 'policy_error')]
  bonus(tools, 4, 0.2).forEach((amount, i) => expect(amount).toBeCloseTo([0.1, 0, -0.1, -0.05][i]!, 12))
})

test('the tools of one call are averaged', () => {
  expect(bonus([tool(0, 'a', 'ok'), tool(0, 'b', 'policy_error'), tool(0, 'c', 'ok'), tool(0, 'd', 'ok')], 1, 0.2)).toEqual([0.05])
})

test('a hundred successes earn no more than the cap', () => {
  const tools = Array.from({ length: 100 }, (_, i) => tool(i, String(i), 'ok'))
  expect(bonus(tools, 100, 0.2).reduce((a, b) => a + b)).toBeCloseTo(0.2, 12)
})
