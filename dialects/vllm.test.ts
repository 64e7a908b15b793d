import { describe, expect, test } from 'vitest'

import { read, run } from '../test/read.ts'

const client = { id: 'chat', at: 10, for: 50, attributes: { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm' } }
const server = (parent: string) => ({
  id: 'server',
  name: 'llm_request',
  parent,
  at: 12,
  attributes: {
    'gen_ai.latency.e2e': 0.3,
    'gen_ai.request.id': 'cmpl-1',
    'gen_ai.usage.prompt_tokens': 5,
    'gen_ai.usage.completion_tokens': 2,
  },
})

describe('vllm', () => {
  test('the server’s span is part of the client’s call, and knows its id and usage', () => {
    expect(read(run(client, server('chat'))).calls).toMatchObject([{ model: 'm', response_id: 'cmpl-1', usage: { input: 5, output: 2 } }])
  })

  test('spans of transport may stand between', () => {
    const http = { id: 'POST', parent: 'chat', at: 11 }
    expect(read(run(client, http, server('POST'))).calls).toMatchObject([{ response_id: 'cmpl-1' }])
  })

  test('a tool inside of a call is another’s: what it calls is not this call’s part', () => {
    const tool = { id: 'f', parent: 'chat', at: 11, attributes: { 'gen_ai.operation.name': 'execute_tool' } }
    expect(read(run(client, tool, { ...server('f') })).calls[0]!.response_id).toBeUndefined()
  })

  test('without a client it is no call', () => {
    expect(read(run(server('root'))).calls).toEqual([])
  })
})
