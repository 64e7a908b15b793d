// A scripted model behind OpenAI's chat completions form, so that the example needs no key. Like vLLM with
// `return_token_ids` it also says which tokens it read and wrote, and how likely each was.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

interface Message {
  role: string
  content: string | null
  tool_calls?: object[]
}

interface Request {
  model: string
  seed: number
  messages: Message[]
}

type Turn = { tool: string; arguments: object } | { text: string }

/** What the model does at each turn, by sampling seed. Both forget that currencies have codes; only one learns from the tool's error. */
const SCRIPTS: Readonly<Record<number, readonly Turn[]>> = {
  1: [
    { tool: 'find_order', arguments: { id: 1042 } },
    { tool: 'convert', arguments: { amount: 45, from: 'dollars', to: 'euros' } },
    { tool: 'convert', arguments: { amount: 45, from: 'USD', to: 'EUR' } },
    { text: 'Order 1042 costs 41.40 EUR.' },
  ],
  2: [
    { tool: 'find_order', arguments: { id: 1042 } },
    { tool: 'convert', arguments: { amount: 45, from: 'dollars', to: 'euros' } },
    { text: 'Order 1042 costs about 45 EUR.' },
  ],
}

/** Listens on a free port of localhost. */
export async function startModelServer(): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request, response) => {
    const body = JSON.stringify(complete((await json(request)) as Request))
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close: () => server.close() }
}

function complete({ model, seed, messages }: Request) {
  const step = messages.filter(({ role }) => role === 'assistant').length
  const message = toMessage(SCRIPTS[seed]![step]!, `call_${seed}_${step}`)
  const prompt = tokenize(messages.map((each) => `<${each.role}>${spoken(each)}`).join('') + '<assistant>')
  const completion = tokenize(spoken(message))
  return {
    id: `chatcmpl-${crypto.randomUUID()}`,
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model,
    prompt_token_ids: prompt.map(tokenId),
    choices: [
      {
        index: 0,
        finish_reason: message.tool_calls ? 'tool_calls' : 'stop',
        message,
        token_ids: completion.map(tokenId),
        logprobs: { content: completion.map((token) => ({ token, logprob: -0.25, bytes: null, top_logprobs: [] })) },
      },
    ],
    usage: { prompt_tokens: prompt.length, completion_tokens: completion.length, total_tokens: prompt.length + completion.length },
  }
}

function toMessage(turn: Turn, callId: string): Message {
  if ('text' in turn) return { role: 'assistant', content: turn.text }
  const call = { id: callId, type: 'function', function: { name: turn.tool, arguments: JSON.stringify(turn.arguments) } }
  return { role: 'assistant', content: null, tool_calls: [call] }
}

const spoken = ({ content, tool_calls }: Message): string => content ?? JSON.stringify(tool_calls)

const tokenize = (text: string): string[] => text.match(/\w+|\W/g) ?? []

/** The same id for the same token, below 50,000. */
const tokenId = (token: string): number => [...token].reduce((hash, char) => (hash * 31 + char.codePointAt(0)!) % 50_000, 7)
