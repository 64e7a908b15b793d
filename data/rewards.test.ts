// Which reward is the outcome. The lettered cases are those that agent-lightning 0.3 was measured on.

import { describe, expect, test } from 'vitest'

import { logs, read, run } from '../test/read.ts'
import { chat, reward, spanIdOf, traces, type SpanSpec } from '../test/spans.ts'
import { AS_GIVEN, outcome, type RewardOptions } from './rewards.ts'

/** The outcome, and each step reward by the name of its call. */
function scored(documents: object[], options: Partial<RewardOptions> = {}) {
  const { rewards, calls, tree, problems } = read(...documents)
  const result = outcome(rewards, calls, tree, { ...AS_GIVEN, ...options })
  const steps = Object.fromEntries(
    [...result.steps].map(([id, step]) => [Buffer.from(id, 'hex').toString().replaceAll('\0', ''), step.intermediate]),
  )
  return { outcome: result.outcome, steps, parts: result.parts, problems: [...problems, ...result.problems].map(({ reason }) => reason) }
}
const score = (...spans: SpanSpec[]) => scored([run(...spans)])
const clean = { parts: {}, problems: [] }

describe('the last reward of the whole is the outcome', () => {
  test('A: one call, a step reward of 0.1, a final 1.0', () => {
    expect(score(chat('c', { at: 10 }), reward('s', 0.1, { at: 20 }), reward('f', 1, { at: 30 }))).toEqual({
      outcome: 1,
      steps: { c: 0.1 },
      ...clean,
    })
  })

  test('B: two calls, then 0.1, then a final 1.0', () => {
    const spans = [chat('c1', { at: 10 }), chat('c2', { at: 20 }), reward('s', 0.1, { at: 30 }), reward('f', 1, { at: 40 })]
    expect(score(...spans)).toEqual({ outcome: 1, steps: { c2: 0.1 }, ...clean })
  })

  test('C: three calls and a final reward only', () => {
    const calls = [1, 2, 3].map((n) => chat(`c${n}`, { at: n * 10 }))
    expect(score(...calls, reward('f', 1, { at: 50 }))).toEqual({ outcome: 1, steps: {}, ...clean })
  })

  test('D: a step reward after each call, then a final 1.0', () => {
    const spans = [
      chat('c1', { at: 10 }),
      reward('s1', 0.2, { at: 20 }),
      chat('c2', { at: 30 }),
      reward('s2', 0.3, { at: 40 }),
      reward('f', 1, { at: 50 }),
    ]
    expect(score(...spans)).toEqual({ outcome: 1, steps: { c1: 0.2, c2: 0.3 }, ...clean })
  })

  test('E: two calls at once, one rewarded while the other runs, then a shared final 1.0', () => {
    const spans = [
      { id: 'left', at: 5, for: 30 },
      { id: 'right', at: 5, for: 60 },
      chat('c1', { parent: 'left', at: 10, for: 10 }),
      chat('c2', { parent: 'right', at: 10, for: 40 }),
      reward('s', 0.2, { parent: 'left', at: 25 }),
      reward('f', 1, { at: 70 }),
    ]
    expect(score(...spans)).toEqual({ outcome: 1, steps: { c1: 0.2 }, ...clean })
  })

  test('a reward that came before the last call ended is no outcome', () => {
    expect(score(chat('c1', { at: 10 }), reward('s', 0.1, { at: 20 }), chat('c2', { at: 30 }))).toEqual({
      outcome: null,
      steps: { c1: 0.1 },
      ...clean,
    })
  })

  test('without a call the outcome stands alone, and without a reward there is none', () => {
    expect(score(reward('f', 1, { at: 30 })).outcome).toBe(1)
    expect(score(chat('c'))).toEqual({ outcome: null, steps: {}, ...clean })
  })

  test('several step rewards of one call add up', () => {
    const spans = [chat('c', { at: 10 }), reward('s1', 0.25, { at: 20 }), reward('s2', 0.5, { at: 25 }), reward('f', 1, { at: 30 })]
    expect(score(...spans).steps).toEqual({ c: 0.75 })
  })

  test('the calls of a judge do not count', () => {
    const judge = { id: 'judge', at: 30, for: 20, attributes: { 'openinference.span.kind': 'EVALUATOR' } }
    const spans = [chat('c', { at: 10 }), reward('f', 1, { at: 25 }), judge, chat('j', { parent: 'judge', at: 35 })]
    expect(score(...spans)).toEqual({ outcome: 1, steps: {}, ...clean })
  })

  test('sequence ids order what the clocks of two machines do not', () => {
    const sequenced = (id: number, span: SpanSpec) => ({
      ...span,
      attributes: { ...span.attributes, 'agentlightning.span_sequence_id': id },
    })
    const spans = [sequenced(1, chat('c', { at: 500 })), sequenced(2, reward('f', 1, { at: 400 }))]
    expect(score(...spans).outcome).toBe(1)
    expect(score(chat('c', { at: 500 }), reward('f', 1, { at: 400 })).outcome).toBeNull()
  })
})

describe('a reward that names what it is about', () => {
  const link = (key: string, value: string) => ({ 'agentlightning.link.0.key_match': key, 'agentlightning.link.0.value_match': value })
  const calls = [
    chat('c1', { at: 10, attributes: { 'gen_ai.response.id': 'resp-1' } }),
    chat('c2', { at: 30, attributes: { 'gen_ai.response.id': 'resp-2' } }),
  ]

  test.each([
    ['gen_ai.response.id', 'resp-1'],
    ['span_id', spanIdOf('c1')],
  ])('belongs to the call with that %s, however late it comes', (key, value) => {
    const spans = [...calls, reward('f', 1, { at: 50 }), reward('late', 0.3, { at: 90, attributes: link(key, value) })]
    expect(score(...spans)).toEqual({ outcome: 1, steps: { c1: 0.3 }, ...clean })
  })

  test('is the outcome where the call it names is the only one', () => {
    const late = logs({
      event: 'gen_ai.evaluation.result',
      at: 60_000,
      attributes: { 'gen_ai.evaluation.score.value': 0.4, 'gen_ai.response.id': 'resp-1' },
    })
    expect(scored([run(calls[0]!), late])).toMatchObject({ outcome: 0.4, steps: {} })
  })

  test('is the outcome where the span it names has every call below it', () => {
    const judged = logs({ event: 'gen_ai.evaluation.result', at: 5, span: 'root', attributes: { 'gen_ai.evaluation.score.value': 0.7 } })
    expect(scored([run(...calls), judged])).toMatchObject({ outcome: 0.7, steps: {} })
  })

  test('belongs to the last call below the span it names', () => {
    const sub = { id: 'sub', at: 5, for: 30 }
    const spans = [sub, chat('c1', { parent: 'sub', at: 10 }), chat('c2', { parent: 'sub', at: 20 }), chat('c3', { at: 50 })]
    const judged = logs({ event: 'gen_ai.evaluation.result', at: 90, span: 'sub', attributes: { 'gen_ai.evaluation.score.value': 0.7 } })
    expect(scored([run(...spans), judged])).toMatchObject({ outcome: null, steps: { c2: 0.7 } })
  })

  test('counts for nothing while what it names is not there', () => {
    const spans = [...calls, reward('f', 1, { at: 50, attributes: link('gen_ai.response.id', 'elsewhere') })]
    expect(score(...spans)).toEqual({ outcome: null, steps: {}, parts: {}, problems: ['reward_target_unknown'] })
  })
})

describe('which dimension counts', () => {
  const judged = (name: string, value: number, span: string) =>
    logs({
      event: 'gen_ai.evaluation.result',
      at: 90,
      span,
      attributes: { 'gen_ai.evaluation.name': name, 'gen_ai.evaluation.score.value': value },
    })

  test('the one that its carrier calls primary; the others are parts', () => {
    const both = reward('f', 1, { at: 30, attributes: { 'agentlightning.reward.1.name': 'speed', 'agentlightning.reward.1.value': 0.5 } })
    expect(scored([run(chat('c', { at: 10 }), both), judged('style', 0.2, 'root')])).toEqual({
      outcome: 1,
      steps: {},
      parts: { speed: 0.5, style: 0.2 },
      problems: [],
    })
  })

  test('the only one there is', () => {
    expect(scored([run(chat('c')), judged('correct', 1, 'root')])).toMatchObject({ outcome: 1, problems: [] })
  })

  test('the configured one of several; without it that is reported, not guessed', () => {
    const documents = [run(chat('c')), judged('correct', 1, 'root'), judged('polite', 0.5, 'root')]
    expect(scored(documents, { primary: 'polite' })).toMatchObject({ outcome: 0.5, parts: { correct: 1 }, problems: [] })
    expect(scored(documents)).toMatchObject({ outcome: null, parts: { correct: 1, polite: 0.5 }, problems: ['reward_ambiguous'] })
  })
})

describe('said again, a reward replaces what was said before', () => {
  const say = (id: string, value: number, more: Record<string, string | number | boolean> = {}, at = 2_000) =>
    logs({
      at,
      span: 'root',
      event: 'gen_ai.evaluation.result',
      attributes: {
        'gen_ai.evaluation.name': 'correct',
        'gen_ai.evaluation.score.value': value,
        'leyden.score.id': id,
        'leyden.score.source': 'environment',
        ...more,
      },
    })
  const call = run(chat('c'))

  test('of one name by one kind of source: ten times, and the last counts', () => {
    const ten = Array.from({ length: 10 }, (_, i) => say(`s${i}`, i / 10, {}, 2_000 + i))
    expect(scored([call, ...ten])).toMatchObject({ outcome: 0.9, parts: {}, problems: [] })
  })

  test('under its id, also about something else', () => {
    const elsewhere = say('same', 0.5, { 'gen_ai.evaluation.name': 'polite' }, 2_100)
    expect(scored([call, say('same', 1), elsewhere])).toMatchObject({ outcome: 0.5, parts: {} })
  })

  test('two at the same time: one of them counts, and always the same', () => {
    const both = [say('a', 0.25), say('b', 0.75)]
    expect(scored([call, ...both]).outcome).toBe(scored([call, ...both]).outcome)
  })

  test('what is verified stands, whatever is said later', () => {
    const verified = say('a', 0.5, { 'leyden.score.override': true, 'leyden.score.source': 'human' })
    expect(scored([call, verified, say('b', 1, {}, 2_500)])).toMatchObject({ outcome: 0.5 })
  })

  test('what a person says stands where that is configured', () => {
    const documents = [call, say('a', 0, { 'leyden.score.source': 'human' }), say('b', 1, {}, 2_500)]
    expect(scored(documents).outcome).toBe(1)
    expect(scored(documents, { human: 'override' }).outcome).toBe(0)
  })

  test('weights make a sum of the names that were given; others are parts', () => {
    const documents = [call, say('a', 1), say('b', 0.5, { 'gen_ai.evaluation.name': 'polite' }, 2_100)]
    expect(scored(documents, { weights: { correct: 1, polite: 0.2, brief: 5 } })).toMatchObject({
      outcome: 1.1,
      parts: { correct: 1, polite: 0.5 },
    })
    expect(scored(documents, { weights: { brief: 5 } })).toMatchObject({ outcome: null })
  })
})

describe('what is no number is refused and said, and costs nothing else', () => {
  const custom = (attributes: Record<string, string | number | boolean>) => ({
    id: 'r',
    name: 'agentlightning.annotation',
    at: 30,
    attributes,
  })

  test('M: NaN', () => {
    expect(score(chat('c', { at: 10 }), reward('f', NaN, { at: 30 }))).toEqual({
      outcome: null,
      steps: {},
      parts: {},
      problems: ['reward_refused'],
    })
  })

  test('text, also where it looks like a number', () => {
    const result = score(chat('c', { at: 10 }), custom({ 'agentlightning.reward.0.value': '0.5' }))
    expect(result).toMatchObject({ outcome: null, problems: ['reward_refused'] })
  })

  test('a refused final reward does not promote an earlier one', () => {
    expect(score(chat('c', { at: 10 }), reward('s', 0.1, { at: 20 }), reward('f', NaN, { at: 30 }))).toMatchObject({
      outcome: null,
      steps: { c: 0.1 },
    })
  })

  test('G: agentlightning.reward without an index', () => {
    const { calls } = read(run(chat('c', { at: 10 }), custom({ 'agentlightning.reward': 0.5 })))
    expect(calls).toHaveLength(1)
    expect(score(chat('c', { at: 10 }), custom({ 'agentlightning.reward': 0.5 }))).toMatchObject({
      outcome: null,
      problems: ['reward_refused'],
    })
  })

  test('H: agentlightning.reward_model is no reward', () => {
    const model = { 'agentlightning.reward_model': 'rm-7b' }
    expect(score(chat('c', { at: 10 }), custom({ ...model, 'agentlightning.reward.0.value': 1 }))).toMatchObject({
      outcome: 1,
      problems: [],
    })
    expect(score(chat('c', { at: 10 }), custom(model))).toMatchObject({ outcome: null, problems: [] })
  })

  test('a failed evaluation is a problem, not a score', () => {
    const failed = logs({ event: 'gen_ai.evaluation.result', at: 30, span: 'root', attributes: { 'error.type': 'timeout' } })
    expect(scored([run(chat('c')), failed])).toMatchObject({ outcome: null, problems: ['reward_refused'] })
  })
})

describe('a tree that is not whole', () => {
  test('I: an unfinished span, the rest is kept', () => {
    expect(score({ id: 'open', at: 5, unfinished: true }, chat('c', { at: 10 }), reward('f', 1, { at: 30 }))).toEqual({
      outcome: 1,
      steps: {},
      ...clean,
    })
  })

  test('J: a missing parent', () => {
    expect(score(chat('c', { parent: 'lost', at: 10 }), reward('f', 1, { at: 30 })).outcome).toBe(1)
  })

  test('K, L: a span that is its own parent, and a cycle beside the root', () => {
    const spans = [
      { id: 'self', parent: 'self' },
      { id: 'x', parent: 'y' },
      { id: 'y', parent: 'x' },
      chat('c', { parent: 'x', at: 10 }),
      reward('f', 1, { at: 30 }),
    ]
    expect(score(...spans)).toEqual({ outcome: 1, steps: {}, parts: {}, problems: ['parent_cycle'] })
  })

  test('P: a reward at the root reaches the call in another subtree', () => {
    const spans = [
      { id: 'sub', at: 5, for: 20 },
      chat('c', { parent: 'sub', at: 10 }),
      reward('s', 0.1, { at: 40 }),
      reward('f', 1, { at: 50 }),
    ]
    expect(score(...spans)).toEqual({ outcome: 1, steps: { c: 0.1 }, ...clean })
  })

  test('a reward in a trace of its own reaches the calls of the others', () => {
    const elsewhere = traces('own', [reward('s', 0.1, { at: 15 }), reward('f', 1, { at: 900 })])
    expect(scored([run(chat('c', { at: 10 })), elsewhere])).toEqual({ outcome: 1, steps: { c: 0.1 }, ...clean })
  })
})
