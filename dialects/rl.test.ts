import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'

const reward = (parent: string, attributes: Record<string, string | number>) => ({
  id: 'reward',
  name: 'rl.reward',
  parent,
  at: 50,
  attributes,
})

describe('rl', () => {
  test('a reward is about the sample above it', () => {
    const sample = { id: 'sample', name: 'rl.sample', at: 1, for: 100 }
    const { rewards, tree } = read(run(sample, reward('sample', { 'rl.reward.score': 0.5 })))
    expect(rewards).toMatchObject([{ dimensions: [{ name: 'primary', value: 0.5 }], target_node: tree.parent[rewards[0]!.node] }])
  })

  test('one without a score is none', () => {
    expect(read(run(reward('root', { 'rl.reward.verify.code': 0 }))).rewards).toEqual([])
  })

  test('calls that a reward function makes are a judge’s', () => {
    const judge = { id: 'judge', parent: 'reward', at: 51, attributes: { 'gen_ai.operation.name': 'chat' } }
    expect(read(run({ ...reward('root', { 'rl.reward.score': 1 }), for: 20 }, judge)).calls[0]!.judged).toBe(true)
  })
})
