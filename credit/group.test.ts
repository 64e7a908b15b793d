import { readFileSync } from 'node:fs'

import { describe, expect, test } from 'vitest'

import { cases } from '../test/potential_cases.ts'
import { seeded } from '../test/random.ts'
import { groupAdvantages, type Member } from './group.ts'

const spec = { baseline: 'rollouts', normalize: 'none', min_group: 2 } as const
const member = (rollout_id: string, returns: (number | null)[], over: Partial<Member> = {}): Member => ({
  rollout_id,
  status: 'succeeded',
  excluded: false,
  transitions: returns.map((value) => ({ agent: 'solver', return: value })),
  ...over,
})

describe.each(cases)('fixtures/rl/19: $name', ({ rollouts, expected, excluded, expected_advantage }) => {
  const members = rollouts.map(({ rollout_id, calls }, i) => ({
    ...member(rollout_id, []),
    excluded: excluded.includes(rollout_id),
    transitions: calls.map((call) => ({ agent: call.agent, return: expected[i]!.return[call.id]! })),
  }))

  test.each(['rollouts', 'transitions', 'agents'] as const)('baseline over %s', (baseline) => {
    const { advantages, effective_size } = groupAdvantages(members, { ...spec, baseline })
    expect(effective_size).toBe(rollouts.length - excluded.length)
    for (const [i, { calls }] of rollouts.entries()) {
      for (const [j, { id }] of calls.entries()) {
        const wanted = expected_advantage[baseline][id]!
        if (wanted === null) expect(advantages[i]![j]).toBeNull()
        else expect(advantages[i]![j], id).toBeCloseTo(wanted, 9)
      }
    }
  })
})

describe('fixtures/rl/01', () => {
  const { cases } = JSON.parse(readFileSync('test/fixtures/rl/01_outcome_advantages.json', 'utf8'))
  test.each<any>(cases)('$name: with and without the standard deviation; groups of one give 0', ({ rewards, group, expected }) => {
    for (const id of new Set<string>(group)) {
      const own = [...rewards.keys()].filter((i) => group[i] === id)
      const members = own.map((i) => member(String(i), [rewards[i]]))
      const plain = groupAdvantages(members, spec).advantages.flat()
      const divided = groupAdvantages(members, { ...spec, normalize: 'std' }).advantages.flat()
      own.forEach((i, m) => {
        expect(plain[m]).toBeCloseTo(own.length === 1 ? 0 : expected.dr_grpo[i], 9)
        expect(divided[m]).toBeCloseTo(own.length === 1 ? 0 : expected['grpo_verl_eps1e-6_ddof1'][i], 9)
      })
    }
  })
})

describe('fixtures/rl/01, leave one out', () => {
  const { cases } = JSON.parse(readFileSync('test/fixtures/rl/01_outcome_advantages.json', 'utf8'))
  test.each<any>(cases)('$name', ({ rewards, group, expected }) => {
    for (const id of new Set<string>(group)) {
      const own = [...rewards.keys()].filter((i) => group[i] === id)
      const members = own.map((i) => member(String(i), [rewards[i]]))
      const { advantages } = groupAdvantages(members, { ...spec, leave_one_out: true })
      own.forEach((i, m) => expect(advantages.flat()[m]).toBeCloseTo(expected.rloo_singleton0[i], 9))
    }
  })
})

describe('fixtures/rl/03', () => {
  const { rows, expected } = JSON.parse(readFileSync('test/fixtures/rl/03_lightningrl_levels.json', 'utf8'))
  test.each([
    ['transition_level_grpo', { baseline: 'transitions', normalize: 'std' }],
    ['rollout_level_grpo', { baseline: 'rollouts', normalize: 'std' }],
    ['rollout_level_dr_grpo', { baseline: 'rollouts' }],
    ['rollout_level_rloo', { baseline: 'rollouts', leave_one_out: true }],
    ['agent_wise_grpo_drmas', { baseline: 'agents', normalize: 'std' }],
  ] as const)('%s', (name, over) => {
    for (const task of new Set(rows.map((row: any) => row.task))) {
      const own = [...rows.keys()].filter((i) => rows[i].task === task)
      const rollouts = [...new Set(own.map((i) => rows[i].rollout as string))]
      const of = rollouts.map((id) => own.filter((i) => rows[i].rollout === id))
      const members = of.map((indices, m) => ({
        ...member(rollouts[m]!, []),
        transitions: indices.map((i) => ({ agent: rows[i].agent, return: rows[i].reward })),
      }))
      const { advantages } = groupAdvantages(members, { ...spec, ...over })
      of.forEach((indices, m) => indices.forEach((i, t) => expect(advantages[m]![t]).toBeCloseTo(expected[name][i], 9)))
    }
  })
})

describe('grouped by task, one rollout a visit', () => {
  const byTask = { ...spec, group_by: 'task', min_group: 3 }

  test('a return is compared with the mean of the others', () => {
    const credit = groupAdvantages([member('a', [1]), member('b', [0]), member('c', [0.5, 0.5])], byTask)
    expect(credit).toMatchObject({ effective_size: 3, advantages: [[0.75], [-0.75], [0, 0]] })
  })

  test('below min_group there is no advantage, rather than 0', () => {
    expect(groupAdvantages([member('a', [1]), member('b', [0])], byTask).advantages).toEqual([[null], [null]])
  })
})

test('a status counts as the configuration says', () => {
  const members = [member('a', [1], { status: 'failed' }), member('b', [1]), member('c', [0])]
  expect(groupAdvantages(members, { ...spec, statuses: { failed: 'left_out' } }).advantages).toEqual([[null], [0.5], [-0.5]])
})

test('a call without a return has no advantage, whatever the others of its rollout have', () => {
  const members = [member('a', [1, null]), member('b', [null, 0])]
  expect(groupAdvantages(members, spec).advantages).toEqual([
    [0.5, null],
    [null, -0.5],
  ])
})

test('ten thousand members are one group; 1e100 among them is no harm', () => {
  const members = Array.from({ length: 10_000 }, (_, i) => member(String(i), [i === 0 ? 1e100 : i % 2]))
  const { advantages, effective_size } = groupAdvantages(members, { ...spec, normalize: 'std', leave_one_out: true })
  expect(effective_size).toBe(10_000)
  expect(advantages.flat().every((a) => Number.isFinite(a))).toBe(true)
})

test('agents are compared with themselves as soon as two of them train', () => {
  const two = [1, 0].map((outcome, i) => ({
    ...member(String(i), []),
    transitions: ['writer', 'checker'].map((agent) => ({ agent, return: outcome })),
  }))
  expect(groupAdvantages(two, { ...spec, baseline: 'auto' }).baseline).toBe('agents')
  expect(groupAdvantages([member('a', [1]), member('b', [0])], { ...spec, baseline: 'auto' }).baseline).toBe('rollouts')
})

test('what was cancelled, timed out, excluded or never scored has no part', () => {
  const members = [
    member('a', [1]),
    member('b', [0]),
    member('c', [1], { status: 'cancelled' }),
    member('d', [1], { status: 'timeout' }),
    member('e', [1], { excluded: true }),
    member('f', [null]),
    member('g', []),
  ]
  const credit = groupAdvantages(members, spec)
  expect(credit).toMatchObject({ members: 7, effective_size: 2, signal: true })
  expect(credit.advantages).toEqual([[0.5], [-0.5], [null], [null], [null], [null], []])
})

test('of the attempts of a rollout the last that succeeded counts, else the last', () => {
  const members = [
    member('a', [0], { status: 'failed' }),
    member('a', [1]),
    member('a', [0], { status: 'failed' }),
    member('b', [0.5], { status: 'failed' }),
    member('b', [0], { status: 'failed' }),
  ]
  expect(groupAdvantages(members, spec).advantages).toEqual([[null], [0.5], [null], [null], [-0.5]])
})

test('below min_group there is no advantage but 0', () => {
  expect(groupAdvantages([member('a', [1]), member('b', [0])], { ...spec, min_group: 3 })).toMatchObject({
    signal: false,
    advantages: [[0], [0]],
  })
})

test('equal returns are no signal, rounding included, and are not blown up by dividing', () => {
  const members = [member('a', [0.1 + 0.2]), member('b', [0.3])]
  expect(groupAdvantages(members, { ...spec, normalize: 'std' })).toMatchObject({ signal: false, advantages: [[0], [0]] })
})

test('without a baseline the return itself is the advantage, of a group of one too', () => {
  expect(groupAdvantages([member('a', [1, 0.5])], { ...spec, baseline: 'none' }).advantages).toEqual([[1, 0.5]])
})

test('the order of the members does not matter', () => {
  const random = seeded(5)
  const members = Array.from({ length: 8 }, (_, i) =>
    member(
      String(i),
      Array.from({ length: 1 + random(4) }, () => random(10)),
    ),
  )
  const straight = groupAdvantages(members, spec).advantages
  const reversed = groupAdvantages(members.toReversed(), spec).advantages.toReversed()
  straight.flat().forEach((a, i) => expect(a).toBeCloseTo(reversed.flat()[i]!, 12))
})
