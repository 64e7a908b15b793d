import { describe, expect, test } from 'vitest'

import { dialects } from '../dialects/index.ts'
import { itemsOf, logs, read, run } from '../test/read.ts'
import { chat, reward, spanIdOf, tool, traces, type SpanSpec } from '../test/spans.ts'
import type { Dialect } from './dialect.ts'
import { textIn } from './messages.ts'
import { readItems } from './reading.ts'
import type { Item } from './span.ts'

const agent = (id: string, over: Partial<SpanSpec> = {}): SpanSpec => ({
  id,
  name: `invoke_agent ${id}`,
  ...over,
  attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': id, ...over.attributes },
})

describe('a call stands at its place', () => {
  test('below the nearest agent that has a name, which is trusted more than what the call says itself', () => {
    const { calls } = read(
      run(
        agent('outer', { at: 1, for: 500 }),
        agent('inner', { parent: 'outer', at: 2, for: 100 }),
        { id: 'step', parent: 'inner', at: 3, for: 50 },
        chat('c1', { parent: 'step', at: 4, attributes: { 'gen_ai.agent.name': 'default' } }),
        chat('c2', { parent: 'outer', at: 200 }),
        chat('c3', { at: 600, attributes: { 'gen_ai.agent.name': 'own' } }),
      ),
    )
    expect(calls.map((call) => call.agent)).toEqual(['inner', 'outer', 'own'])
  })

  test.each([
    ['an evaluator', { 'openinference.span.kind': 'EVALUATOR' }, 'grade'],
    ['a guardrail', { 'openinference.span.kind': 'GUARDRAIL' }, 'guard'],
    ['a guardrail check', { 'gen_ai.operation.name': 'guardrail_check' }, 'guard'],
    [
      'a function whose output is a reward',
      { 'agentops.span.kind': 'task', 'agentops.task.output': '{"type": "reward", "value": 1}' },
      'score.task',
    ],
    ['a reward span', { 'agentlightning.reward.0.value': 1 }, 'agentlightning.annotation'],
  ])('below %s it is judged, and so is a tool', (_, attributes, name) => {
    const judge: SpanSpec = { id: 'judge', name, at: 10, for: 90, attributes }
    const { calls, tools } = read(
      run(
        chat('c', { at: 1 }),
        judge,
        { id: 'x', parent: 'judge', at: 11 },
        chat('j', { parent: 'x', at: 20 }),
        tool('t', { parent: 'x', at: 30 }),
      ),
    )
    expect(calls.map((call) => call.judged)).toEqual([false, true])
    expect(tools.map((tool) => tool.judged)).toEqual([true])
  })
})

describe('log records', () => {
  const message = (event: string, body: unknown, at = 11) => ({ event, span: 'c', body, at })

  test('that hold the messages of a call are joined to it, in order, wherever they stand in the request', () => {
    const bare = { id: 'c', at: 10, attributes: { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm' } }
    const { calls } = read(
      logs(
        message('gen_ai.choice', { index: 0, finish_reason: 'stop', message: { content: 'Four.' } }, 30),
        message('gen_ai.choice', { index: 1, finish_reason: 'stop', message: { content: 'Five.' } }, 30),
        message('gen_ai.system.message', { content: 'Be brief.' }),
        message('gen_ai.user.message', { content: '2 + 2?' }),
      ),
      run(bare),
    )
    expect(calls).toMatchObject([{ prompt: [{ role: 'system' }, { role: 'user' }], finish: 'stop', flags: [] }])
    expect(textIn(calls[0]!.completion)).toBe('Four.')
  })

  test('whose span never came are a problem, not a call', () => {
    const { calls, problems } = read(logs(message('gen_ai.user.message', { content: '2 + 2?' })))
    expect(calls).toEqual([])
    expect(problems).toMatchObject([{ reason: 'part_without_span', span_id: spanIdOf('c') }])
  })

  test('can be calls of their own, for a dialect that lives in logs', () => {
    const inLogs: Dialect = {
      name: 'in-logs',
      signs: {},
      matches: (item) => item.signal === 'log',
      read: () => ({ kind: 'call', operation: 'chat', prompt: [], flags: [] }),
    }
    const items = itemsOf(run(agent('solo', { at: 1, for: 500 })), logs({ event: 'x', span: 'solo', at: 10 }, { event: 'x', at: 20 }))
    const { calls } = readItems(items, [...dialects, inLogs])
    expect(calls).toMatchObject([
      { parent_span_id: spanIdOf('solo'), node: -1 },
      { parent_span_id: '', node: -1 },
    ])
    expect(new Set(calls.map((call) => call.span_id)).size).toBe(2)
    expect(readItems(items, [...dialects, inLogs]).calls).toEqual(calls)
  })
})

describe('bad input costs one span', () => {
  test('a span that a dialect cannot read is counted, the rest is kept', () => {
    const fragile: Dialect = {
      ...dialects.at(-2)!,
      name: 'fragile',
      read: (item) => (item.span_id === spanIdOf('bad') ? JSON.parse('{') : dialects.at(-2)!.read(item)),
    }
    const { calls, problems } = readItems(itemsOf(run(chat('bad', { at: 1 }), chat('good', { at: 2 }))), [fragile])
    expect(calls.map((call) => call.span_id)).toEqual([spanIdOf('good')])
    expect(problems).toMatchObject([{ reason: 'unreadable_span', span_id: spanIdOf('bad') }])
  })

  test.each([
    ['messages that are a number', { 'gen_ai.input.messages': 5 }],
    ['messages cut in the middle', { 'gen_ai.input.messages': '[{"role": "us' }],
    ['messages as a Python literal', { 'gen_ai.input.messages': "[{'role': 'user', 'content': None}]" }],
    ['messages of the wrong shape', { 'gen_ai.input.messages': '[[[1]], {"role": 7, "parts": "x"}, null, {"parts": [null, 3, {}]}]' }],
    [
      'JSON nested past the stack',
      {
        'gen_ai.output.messages': `[{"role":"assistant","parts":[{"type":"tool_call","name":"f","arguments":${'['.repeat(20_000)}${']'.repeat(20_000)}}]}]`,
      },
    ],
    ['token counts that are words', { 'gen_ai.usage.input_tokens': 'many' }],
  ])('%s', (_, attributes) => {
    const { calls, rewards } = read(run(chat('c1', { at: 1, attributes }), chat('c2', { at: 20 }), reward('r', 1, { at: 40 })))
    expect(calls.map((call) => call.span_id)).toContain(spanIdOf('c2'))
    expect(rewards).toHaveLength(1)
  })

  test('a span that was never ended is read and flagged, one that ended before it began lasts no time', () => {
    const { calls } = read(run(chat('c1', { at: 10, unfinished: true }), chat('c2', { at: 20, for: -15 })))
    expect(calls.map((call) => [call.flags, call.end_time - call.start_time])).toEqual([
      [['unfinished'], 0n],
      [[], 0n],
    ])
  })

  test('a span that came twice counts once, and what its copies say is joined', () => {
    const first = chat('c', { at: 1, unfinished: true, attributes: { 'session.id': 's-1' } })
    const { calls, duplicates, spans } = read(run(first), run(chat('c', { at: 1 })), run(chat('c', { at: 1 })))
    expect(calls).toMatchObject([{ session: 's-1', flags: [] }])
    expect({ duplicates, spans }).toEqual({ duplicates: 0, spans: 2 })
  })

  test('of spans that are given one by one the first of an id counts', () => {
    const items = itemsOf(
      run(chat('c', { at: 1, answer: 'first' })),
      run(chat('c', { at: 1, answer: 'second' })),
      run(chat('d', { at: 2 })),
    )
    const counted: Item[] = []
    const { calls, spans } = readItems(items.values(), dialects, (item) => counted.push(item as Item))
    expect(calls.map(({ completion }) => textIn(completion))).toEqual(['first', '4'])
    expect([spans, counted.length]).toEqual([3, 3])
  })

  test('numbers as text, sparse indices, Python literals and empty values are read as what they say', () => {
    const indexed = {
      'llm.request.type': 'chat',
      'gen_ai.prompt.7.role': 'user',
      'gen_ai.prompt.7.content': 'and now?',
      'gen_ai.prompt.2.role': 'system',
      'gen_ai.prompt.2.content': 'be brief',
      'gen_ai.completion.0.role': 'assistant',
      'gen_ai.completion.0.content': 'done',
      'gen_ai.usage.prompt_tokens': '12',
      'gen_ai.usage.completion_tokens': ' 3 ',
    }
    const python = { 'gen_ai.input.messages': "[{'role': 'user', 'parts': [{'type': 'text', 'content': 'it\\'s', 'cache': None}]}]" }
    const document = run(
      { id: 'indexed', at: 1, attributes: indexed },
      chat('python', { at: 20, attributes: python }),
      chat('empty', { at: 40 }),
    ) as { resourceSpans: { scopeSpans: { spans: { attributes: { key: string; value: object }[] }[] }[] }[] }
    const spans = document.resourceSpans[0]!.scopeSpans[0]!.spans
    for (const attribute of spans.at(-1)!.attributes) if (attribute.key === 'gen_ai.output.messages') attribute.value = {}
    const { calls, problems } = read(document)
    expect(calls.map((call) => call.prompt.map(({ role, parts }) => [role, ...parts.map((part) => 'text' in part && part.text)]))).toEqual([
      [
        ['system', 'be brief'],
        ['user', 'and now?'],
      ],
      [['user', "it's"]],
      [['user', expect.any(String)]],
    ])
    expect(calls[0]!.usage).toMatchObject({ input: 12, output: 3 })
    expect([calls[2]!.completion, calls[2]!.flags]).toEqual([undefined, ['outputMissing']])
    expect(problems).toEqual([])
  })

  test('two roots in one trace are one run', () => {
    const { calls, tree } = read(
      traces('t', [
        { id: 'first', name: 'agent', at: 0, for: 50 },
        chat('c1', { parent: 'first', at: 1 }),
        { id: 'second', name: 'agent', at: 60, for: 50 },
        chat('c2', { parent: 'second', at: 61 }),
      ]),
    )
    expect(calls.map((call) => call.span_id)).toEqual([spanIdOf('c1'), spanIdOf('c2')])
    expect([...tree.parent].filter((parent) => parent === -1)).toHaveLength(2)
  })

  test('a circle of parents is cut and told, and what is in it is read', () => {
    const { calls, problems } = read(
      traces('t', [
        { id: 'a', parent: 'b', at: 0, for: 90 },
        { id: 'b', parent: 'a', at: 1, for: 80 },
        chat('c1', { parent: 'b', at: 2 }),
        chat('c2', { parent: 'c2', at: 20 }),
      ]),
    )
    expect(calls.map((call) => call.span_id)).toEqual([spanIdOf('c1'), spanIdOf('c2')])
    expect(problems).toMatchObject([{ reason: 'parent_cycle', detail: '2 parent links were cut' }])
  })

  test('spans whose clock is ahead of or behind their parent, and children that end after the root, keep their place', () => {
    const { calls, tools, problems } = read(
      run(
        agent('a', { at: 100, for: 100, attributes: { 'gen_ai.agent.name': 'writer' } }),
        chat('early', { parent: 'a', at: 5 }),
        tool('late', { parent: 'a', at: 5_000, for: 1_000 }),
        chat('after', { at: 3_000, for: 9_000 }),
      ),
    )
    expect(calls.map((call) => [call.span_id, call.agent])).toEqual([
      [spanIdOf('early'), 'writer'],
      [spanIdOf('after'), undefined],
    ])
    expect(tools).toMatchObject([{ span_id: spanIdOf('late'), agent: 'writer' }])
    expect(problems).toEqual([])
  })

  test('nothing at all is an empty reading', () => {
    expect(read()).toMatchObject({ calls: [], tools: [], rewards: [], problems: [], spans: 0, traces: 0 })
  })
})

test('the order in which spans arrive does not matter', () => {
  const spans = [
    agent('a', { at: 1, for: 500 }),
    chat('c1', { parent: 'a', at: 2 }),
    tool('t', { parent: 'a', at: 20 }),
    chat('c2', { parent: 'a', at: 30 }),
    reward('r', 1, { at: 600 }),
  ]
  const { tree: _tree, ...forwards } = read(run(...spans))
  const { tree: _other, ...backwards } = read(run(...spans.toReversed()))
  expect(backwards).toEqual(forwards)
})

test('a rollout of 100,000 spans, 10,000 deep, is read whole', () => {
  const deep = Array.from({ length: 10_000 }, (_, i): SpanSpec => ({
    id: `d${i}`,
    at: i,
    for: 300_000 - i,
    ...(i > 0 ? { parent: `d${i - 1}` } : {}),
  }))
  const below = Array.from({ length: 15_000 }, (_, i) => {
    const place = { parent: `d${i % 10_000}`, at: 10_000 + i }
    return [chat(`c${i}`, place), tool(`t${i}`, place), reward(`r${i}`, 1, place)][i % 3]!
  })
  const [stranger] = itemsOf(traces('t', [{ id: 's', parent: 'd9999', at: 20_000 }]))
  const strangers = Array.from({ length: 75_000 }, (_, i): Item => ({ ...stranger!, span_id: (2 ** 60 + i * 256).toString(16) }))
  const { calls, tools, rewards, tree } = readItems([...itemsOf(traces('t', [...deep, ...below])), ...strangers], dialects)
  expect([calls.length, tools.length, rewards.length, tree.count]).toEqual([5_000, 5_000, 5_000, 100_000])
})
