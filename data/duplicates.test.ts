import { describe, expect, test } from 'vitest'

import { logs, read } from '../test/read.ts'
import { chat, spanIdOf, traces, type SpanSpec } from '../test/spans.ts'

/** Each instrumentation has a scope of its own. */
function recorded(...byScope: [scope: string, span: SpanSpec, resource?: Record<string, string>][]) {
  const documents = byScope.map(([scope, span, resource]) => {
    const document = traces(span.trace ?? 't', [span], resource) as { resourceSpans: { scopeSpans: { scope: { name: string } }[] }[] }
    document.resourceSpans[0]!.scopeSpans[0]!.scope.name = scope
    return document
  })
  return read(...documents)
}

const id = (response: string) => ({ 'gen_ai.response.id': response })
const tokens = (output: number) => ({ 'gen_ai.usage.input_tokens': 9, 'gen_ai.usage.output_tokens': output })
const nothing = { 'gen_ai.input.messages': '', 'gen_ai.output.messages': '' }

describe('one call that two instrumentations recorded is one call', () => {
  test('by its response id, in traces of their own', () => {
    const { calls, duplicates } = recorded(
      ['sdk', chat('a', { at: 10, for: 100, attributes: id('r1') })],
      ['provider', chat('b', { at: 20, for: 80, trace: 'other', attributes: { ...id('r1'), ...tokens(3) } })],
    )
    expect(duplicates).toBe(1)
    expect(calls).toMatchObject([{ usage: { output: 3 } }])
  })

  test('by its response id, when only one of them names the rollout', () => {
    const outer = chat('a', { at: 10, for: 100, attributes: id('r1') })
    const inner = chat('b', { parent: 'a', at: 20, for: 10, attributes: { ...id('r1'), ...tokens(3) } })
    expect(recorded(['sdk', outer, { 'leyden.rollout.id': 'x' }], ['server', inner])).toMatchObject({
      calls: [{ rollout_id: 'x', usage: { output: 3 } }],
      duplicates: 1,
    })
  })

  test('by containment, when only one of them has a response id', () => {
    const outer = chat('a', { at: 10, for: 100, attributes: tokens(3) })
    const inner = (output: number) => chat('b', { parent: 'a', at: 70, for: 30, attributes: { ...id('r1'), ...tokens(output) } })
    expect(recorded(['sdk', outer], ['provider', inner(3)]).duplicates).toBe(1)
    expect(recorded(['sdk', outer], ['provider', inner(4)]).duplicates).toBe(0)
  })

  test('by what was answered at the same moment, when neither has one', () => {
    const answered = (at: number, answer: string) =>
      recorded(['sdk', chat('a', { at: 10 })], ['provider', chat('b', { at, answer })]).duplicates
    expect(answered(30, '4')).toBe(1)
    expect(answered(90, '4')).toBe(0)
    expect(answered(30, '5')).toBe(0)
  })
})

describe('two calls stay two', () => {
  test('when a test double answers every call with the same id', () => {
    const calls = [10, 20, 30].map((at, i): [string, SpanSpec] => [
      'sdk',
      chat(`c${i}`, { at, for: 5, answer: `${i}`, attributes: id('always') }),
    ])
    expect(recorded(...calls).calls).toHaveLength(3)
  })

  test('when they belong to different rollouts, whatever their ids', () => {
    const span = (name: string) => chat(name, { at: 10, for: 50, attributes: id('r1') })
    const { calls } = recorded(
      ['a', span('a'), { 'leyden.rollout.id': 'x' }],
      ['b', { ...span('b'), trace: 'u' }, { 'leyden.rollout.id': 'y' }],
    )
    expect(calls.map((call) => call.rollout_id)).toEqual(['x', 'y'])
  })

  test('when one instrumentation made two equal ones at once, whoever else made some', () => {
    const equal: [string, SpanSpec][] = [10, 11].map((at) => ['sdk', chat(`at ${at}`, { at })])
    expect(recorded(...equal).calls).toHaveLength(2)
    expect(recorded(...equal, ['provider', chat('c', { at: 12, answer: '7' })]).calls).toHaveLength(3)
  })

  test('when two models gave one answer at once', () => {
    expect(recorded(['sdk', chat('a', { at: 10 })], ['provider', chat('b', { at: 11, model: 'other' })]).calls).toHaveLength(2)
  })

  test('when one is inside of another, and both have ids of their own', () => {
    const outer = chat('a', { at: 10, for: 100, attributes: { ...id('r1'), ...tokens(3) } })
    const inner = chat('b', { parent: 'a', at: 70, for: 30, attributes: { ...id('r2'), ...tokens(3) } })
    expect(recorded(['sdk', outer], ['provider', inner]).calls).toHaveLength(2)
  })
})

describe('the merged call', () => {
  test('is the richer record, its gaps filled, at the place that has something above it', () => {
    const placed = chat('a', {
      parent: 'root',
      at: 10,
      for: 100,
      attributes: { ...id('r1'), 'session.id': 's', 'gen_ai.agent.name': 'me' },
    })
    const rich = chat('b', {
      at: 20,
      for: 80,
      trace: 'other',
      attributes: { ...id('r1'), 'gen_ai.agent.name': 'a default', prompt_token_ids: '[1, 2]', response_token_ids: '[3]' },
    })
    const { calls } = recorded(['sdk', placed], ['provider', rich])
    expect(calls).toMatchObject([
      {
        span_id: spanIdOf('a'),
        parent_span_id: spanIdOf('root'),
        scope: 'provider',
        agent: 'me',
        session: 's',
        tokens: { prompt: [1, 2], response: [3] },
        merged_span_ids: [spanIdOf('b')],
      },
    ])
  })

  test('takes messages from whoever has them, with their flags', () => {
    const ids = { ...id('r1'), prompt_token_ids: '[1]', response_token_ids: '[2]' }
    const { calls } = recorded(
      ['tokens', chat('a', { at: 10, for: 50, attributes: { ...nothing, ...ids } })],
      ['text', chat('b', { at: 12, for: 40, attributes: { ...id('r1'), 'gen_ai.request.previous_response.id': 'r0' } })],
    )
    expect(calls).toMatchObject([{ scope: 'tokens', prompt: [{ role: 'user' }], flags: ['historyIncomplete'] }])
  })
})

test('a call that one of its records has below a judge is a judge’s', () => {
  const judge: SpanSpec = { id: 'judge', at: 5, for: 200, attributes: { 'openinference.span.kind': 'EVALUATOR' } }
  const inside = chat('a', { parent: 'judge', at: 10, for: 100, attributes: id('r1') })
  const alone = chat('b', {
    at: 20,
    for: 80,
    trace: 'other',
    attributes: { ...id('r1'), prompt_token_ids: '[1]', response_token_ids: '[2]' },
  })
  expect(recorded(['judge', judge], ['sdk', inside], ['provider', alone]).calls).toMatchObject([{ judged: true }])
})

test('calls that are log records outside of any span take no call with them', () => {
  const record = { 'event.kind': 'response.completed', model: 'gpt', output_token_count: '3' }
  const records = logs({ event: 'codex.sse_event', attributes: record })
  const { calls, duplicates } = read(records, traces('t', [chat('a', { at: 10, attributes: tokens(3) })]))
  expect([calls.length, duplicates]).toEqual([2, 0])
})
