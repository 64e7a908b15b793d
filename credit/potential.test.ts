import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

import { causalityOf } from '../data/causality.ts'
import { pairwise } from '../test/pairwise.ts'
import { randomSpans, seeded, span, treeOf } from '../test/random.ts'
import { phi, potential, type ToolOutcome } from './potential.ts'

const { phi_saturating } = JSON.parse(readFileSync('test/fixtures/rl/12_shaping.json', 'utf8'))

test.each<any>(phi_saturating.SF.map((sf: number[], i: number) => [...sf, phi_saturating.phi[i]]))(
  '%i successes and %i errors promise %f',
  (successes, errors, expected) => expect(phi(successes, errors, phi_saturating.c)).toBeCloseTo(expected, 9),
)

test('one sweep finds the same as counting what happened before each span', () => {
  const random = seeded(3)
  for (let i = 0; i < 200; i++) {
    const tree = treeOf(randomSpans(random, 1 + random(30)))
    const nodes = [...tree.parent.keys()]
    const tools = Array.from({ length: random(20) }, (): ToolOutcome => ({
      node: random(nodes.length),
      key: String(random(6)),
      air_class: (['ok', 'ok', 'policy_error', 'empty', 'env_error'] as const)[random(5)]!,
    }))
    const happened = pairwise(tree)
    const expected = nodes.map((node) => {
      const before = tools.filter((tool) => happened(tool.node, node))
      const successes = new Set(before.filter((t) => t.air_class === 'ok').map((t) => t.key)).size
      return phi(successes, before.filter((t) => t.air_class === 'policy_error').length, 0.3)
    })
    expect([...potential(causalityOf(tree), tools, 0.3)]).toEqual(expected)
  }
})

test('a thousand distinct successes promise exactly c', () => {
  const spans = Array.from({ length: 1_001 }, (_, i) => span(String(i), '', i, i + 1))
  const tools = spans.map((_, node): ToolOutcome => ({ node, key: String(node), air_class: 'ok' }))
  expect(potential(causalityOf(treeOf(spans)), tools, 0.3)[1_000]).toBe(0.3)
})
