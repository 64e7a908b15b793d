import { expect, test } from 'vitest'

import { conforms } from '../test/conformance.ts'
import { scripted, startEndpoint } from '../test/openai.ts'
import openai from './openai.ts'

conforms(openai, scripted([{ text: 'Hello.' }]))

const question = [{ role: 'user' as const, content: 'What is 2 + 2?' }]

test('a chat is answered and becomes a call with its messages, token ids and logprobs', async () => {
  const { client, calls } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
  const answer = await client.chat.completions.create({ model: 'demo', messages: question, temperature: 0.5 })
  expect(answer.choices).toMatchObject([{ message: { role: 'assistant', content: 'It is 4.' }, finish_reason: 'stop' }])
  expect(await calls(1)).toMatchObject([
    {
      operation: 'chat',
      request_model: 'demo',
      response_id: answer.id,
      prompt: [{ role: 'user', parts: [{ kind: 'text', text: 'What is 2 + 2?' }] }],
      completion: { parts: [{ kind: 'text', text: 'It is 4.' }] },
      params: { temperature: 0.5 },
      finish: 'stop',
      usage: { input: answer.usage!.prompt_tokens, output: answer.usage!.completion_tokens },
      tokens: { response: [...Buffer.from('It is 4.\n')], logprobs: Array(9).fill(0) },
      flags: [],
    },
  ])
})

test('a stream comes word by word and is recorded as the same call', async () => {
  const { client, calls } = await startEndpoint(scripted([{ text: 'It is 4.' }]))
  const stream = await client.chat.completions.create({
    model: 'demo',
    messages: question,
    stream: true,
    stream_options: { include_usage: true },
  })
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  expect(chunks.map(({ choices }) => choices[0]?.delta.content).filter(Boolean)).toEqual(['It ', 'is ', '4.'])
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 9 } })
  expect(await calls(1)).toMatchObject([
    { completion: { parts: [{ text: 'It is 4.' }] }, response_id: chunks[0]!.id, usage: { output: 9 } },
  ])
})
