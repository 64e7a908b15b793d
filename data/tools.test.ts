// What a completion asked for, what ran, and what the next prompt says came back.

import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'
import { chat, spanIdOf, tool, type SpanSpec } from '../test/spans.ts'

type Asked = { id?: string; name?: string; args?: object }
type Came = { id: string; text: string }

/** A call that asks for tools, and whose prompt shows what earlier ones returned. */
function asking(id: string, at: number, asked: Asked[], came: Came[] = [], history: Asked[] = []): SpanSpec {
  const calls = (list: Asked[]) => list.map(({ id, name = 'search', args = {} }) => ({ type: 'tool_call', id, name, arguments: args }))
  const prompt = [
    { role: 'user', parts: [{ type: 'text', content: 'Go.' }] },
    ...(came.length > 0 ? [{ role: 'assistant', parts: calls(history) }] : []),
    ...came.map(({ id, text }) => ({ role: 'tool', parts: [{ type: 'tool_call_response', id, response: text }] })),
  ]
  const answer = asked.length > 0 ? calls(asked) : [{ type: 'text', content: 'Done.' }]
  return chat(id, {
    at,
    attributes: {
      'gen_ai.input.messages': JSON.stringify(prompt),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: answer }]),
    },
  })
}

const ran = (id: string, at: number, attributes: Record<string, string>, over: Partial<SpanSpec> = {}) =>
  tool(id, { at, ...over, attributes })
const toolsOf = (...spans: SpanSpec[]) =>
  read(run(...spans)).tools.map(({ name, call_id = null, verdict: { status, evidence }, inferred, requested_by }) => ({
    name,
    call_id,
    verdict: `${status}: ${evidence}`,
    inferred,
    by: Buffer.from(requested_by, 'hex').toString().replaceAll('\0', ''),
  }))

describe('a tool that ran belongs to the call that asked for it', () => {
  test('by its id, also where ids are used again in the next turn', () => {
    const spans = [
      asking('c1', 10, [{ id: 'call_0', args: { q: 1 } }]),
      ran('t1', 20, { 'gen_ai.tool.call.id': 'call_0' }),
      asking('c2', 30, [{ id: 'call_0', args: { q: 2 } }]),
      ran('t2', 40, { 'gen_ai.tool.call.id': 'call_0' }),
    ]
    expect(toolsOf(...spans).map(({ by }) => by)).toEqual(['c1', 'c2'])
  })

  test.each([
    ['named arguments in another order', '{"to": "Rome", "from": "Oslo"}'],
    ['positional arguments of a decorator', '{"args": ["Oslo", "Rome"], "kwargs": {}}'],
    ['keyword arguments of a decorator', '{"args": [], "kwargs": {"from": "Oslo", "to": "Rome"}}'],
    ['a Python dict', "{'from': 'Oslo', 'to': 'Rome'}"],
  ])('without an id by %s', (_, args) => {
    const asked = [
      { id: 'a', args: { from: 'Rome', to: 'Oslo' } },
      { id: 'b', args: { from: 'Oslo', to: 'Rome' } },
    ]
    const tools = toolsOf(asking('c', 10, asked), ran('t', 20, { 'gen_ai.tool.call.arguments': args }))
    expect(tools.map(({ call_id, inferred }) => [call_id, inferred])).toEqual([
      ['a', true],
      ['b', false],
    ])
  })

  test('without arguments by name, the latest request first, those of one answer in order', () => {
    const spans = [
      asking('c1', 10, [{ id: 'a' }]),
      asking('c2', 20, [
        { id: 'b', args: { n: 1 } },
        { id: 'c', args: { n: 2 } },
      ]),
      ran('t1', 30, {}),
      ran('t2', 31, {}),
    ]
    expect(toolsOf(...spans).map(({ call_id, inferred }) => [call_id, inferred])).toEqual([
      ['a', true],
      ['b', false],
      ['c', false],
    ])
  })

  test('of its own agent, when two agents ask for the same at once', () => {
    const agent = (id: string): SpanSpec => ({
      id,
      at: 1,
      for: 900,
      attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': id },
    })
    const asked = (id: string, parent: string, at: number) => ({ ...asking(id, at, [{ id: `of-${id}` }]), parent })
    const spans = [
      agent('x'),
      agent('y'),
      asked('cx', 'x', 10),
      asked('cy', 'y', 11),
      ran('tx', 20, {}, { parent: 'x' }),
      ran('ty', 21, {}, { parent: 'y' }),
    ]
    expect(toolsOf(...spans).map(({ by }) => by)).toEqual(['cx', 'cy'])
  })

  test('even where its clock is behind, and twice when it was tried twice', () => {
    const id = { 'gen_ai.tool.call.id': 'a' }
    const tools = toolsOf(asking('c', 50, [{ id: 'a' }]), ran('early', 10, id), ran('again', 70, id))
    expect(tools.map(({ by, inferred }) => [by, inferred])).toEqual([
      ['c', false],
      ['c', false],
    ])
  })

  test('one execution that two instrumentations recorded is one tool', () => {
    const outer = {
      id: 'outer',
      name: 'search.tool',
      at: 20,
      for: 30,
      attributes: { 'traceloop.span.kind': 'tool', 'traceloop.entity.name': 'search' },
    }
    const inner = ran('inner', 22, { 'gen_ai.tool.call.id': 'a' }, { parent: 'outer', for: 10, status: 2 })
    expect(toolsOf(asking('c', 10, [{ id: 'a' }]), outer, inner)).toEqual([
      { name: 'search', call_id: 'a', verdict: 'error: status.code', inferred: false, by: 'c' },
    ])
  })
})

test('a tool that works through an agent of its own, which runs the same tool, is two tools', () => {
  const inner: SpanSpec = {
    id: 'sub',
    parent: 'outer',
    at: 21,
    for: 20,
    attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'sub' },
  }
  expect(toolsOf(ran('outer', 20, {}, { for: 40 }), inner, ran('inner', 22, {}, { parent: 'sub' }))).toHaveLength(2)
})

describe('the verdict', () => {
  const a = { id: 'a' }
  const next = (text: string) => asking('c2', 90, [], [{ id: 'a', text }], [a])
  const bare = (over: Partial<SpanSpec> = {}): SpanSpec => ({
    id: 't',
    name: 'execute_tool search',
    at: 20,
    ...over,
    attributes: { 'gen_ai.tool.call.id': 'a' },
  })

  test.each([
    ['of a span that says nothing is what the next prompt says', [bare()], 'Rome', 'ok: next prompt'],
    [
      'of a span that says OK is overturned by an error in the next prompt',
      [bare({ status: 1 })],
      'Error: no such city',
      'error: next prompt',
    ],
    ['of a failed span stands against a friendly message', [bare({ status: 2 })], 'Try another city.', 'error: status.code'],
    ['of a tool without a span is inferred', [], '{"status": "error"}', 'error: next prompt'],
    ['of an empty message is unknown', [], '', 'unknown: no content'],
  ])('%s', (_, spans, text, verdict) => {
    expect(toolsOf(asking('c1', 10, [a]), ...spans, next(text)).map((tool) => tool.verdict)).toEqual([verdict])
  })

  test('of a tool that was asked for and never heard of is unknown', () => {
    expect(toolsOf(asking('c', 10, [a]))).toEqual([
      { name: 'search', call_id: 'a', verdict: 'unknown: no content', inferred: true, by: 'c' },
    ])
  })

  test('of ids used again is that of their own turn', () => {
    const turn = (id: string, at: number, q: number, came: Came[] = [], history: Asked[] = []) =>
      asking(id, at, [{ id: 'call_0', args: { q } }], came, history)
    const spans = [
      turn('c1', 10, 1),
      turn('c2', 20, 2, [{ id: 'call_0', text: 'Error: busy' }], [{ id: 'call_0', args: { q: 1 } }]),
      asking('c3', 30, [], [{ id: 'call_0', text: 'found' }], [{ id: 'call_0', args: { q: 2 } }]),
    ]
    expect(toolsOf(...spans).map((tool) => tool.verdict)).toEqual(['error: next prompt', 'ok: next prompt'])
  })

  test('of a tool that only the history knows is told, but nobody asked for it in this run', () => {
    expect(toolsOf(next('Rome'))).toEqual([{ name: 'search', call_id: 'a', verdict: 'ok: next prompt', inferred: true, by: '' }])
  })
})

test.each(['transfer_to_billing', 'handoff_to_human', 'final_result'])('%s is no tool', (name) => {
  expect(toolsOf(asking('c', 10, [{ id: 'a', name }]), ran('t', 20, { 'gen_ai.tool.name': name, 'gen_ai.tool.call.id': 'a' }))).toEqual([])
})

test('a tool whose request was not recorded is the one that a later prompt tells of', () => {
  const asked = { id: 'a', args: { q: 1 } }
  const later = asking('c2', 30, [], [{ id: 'a', text: 'Error: none' }], [asked])
  expect(toolsOf(ran('t', 20, { 'gen_ai.tool.call.arguments': '{"q": 1}', 'gen_ai.tool.call.result': '' }), later)).toEqual([
    { name: 'search', call_id: 'a', verdict: 'error: next prompt', inferred: false, by: '' },
  ])
})

test('so is one whose span does not hold its arguments either, as of a tool that threw in Google ADK for JavaScript', () => {
  const later = asking('c2', 30, [], [{ id: 'a', text: 'Error: none' }], [{ id: 'a', args: { q: 1 } }])
  expect(toolsOf(ran('t', 20, {}), later)).toEqual([
    { name: 'search', call_id: 'a', verdict: 'error: next prompt', inferred: false, by: '' },
  ])
})

test('a tool without any call keeps its own word', () => {
  const tools = read(run(tool('t', { at: 10 }))).tools
  expect(tools).toMatchObject([{ span_id: spanIdOf('t'), verdict: { status: 'ok', evidence: 'has result' }, requested_by: '' }])
})
