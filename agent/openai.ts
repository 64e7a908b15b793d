// Records the chat completions of an OpenAI client, streamed ones too, in the words that it has for them. Left out: its other APIs.

import type { Span } from '@opentelemetry/api'

import type { Answer, Body, Chunk, Client, Completion, ToolCall } from './openai_types.ts'
import { fail, headersOf, open, write } from './tracer.ts'

/** From now on the client's chat completions are spans, and say where they belong. It is the same client. */
export function trace<C extends Client>(client: C): C {
  const { completions } = client.chat
  const create = completions.create.bind(completions)
  completions.create = (body, options) => {
    const span = open(`chat ${body?.model}`, { 'gen_ai.operation.name': 'chat' })
    const answer = create(body, { ...options, headers: { ...headersOf(span), ...(options?.headers as object) } })
    write(span, () => observe(span, body, answer as Answer))
    return answer
  }
  return client
}

/** The client parses an answer when somebody asks for it, once: there it is looked at. Returns what the request says. */
function observe(span: Span, { model, messages, tools, stream }: Body, answer: Answer) {
  answer.asResponse().catch((error: unknown) => fail(span, error).end())
  const parse = answer.parseResponse.bind(answer)
  answer.parseResponse = async (...args) => {
    const parsed = await parse(...args)
    if (stream) parsed.iterator = watched(span, parsed.iterator)
    else write(span, () => said(parsed)).end()
    return parsed
  }
  return { 'gen_ai.request.model': model, 'gen_ai.input.messages': messages, 'gen_ai.tool.definitions': tools }
}

/** Passes chunks on as they come, and ends the span with what they add up to. */
function watched(span: Span, iterate: () => AsyncIterable<Chunk>) {
  return async function* () {
    const chunks: Chunk[] = []
    try {
      for await (const chunk of iterate()) {
        chunks.push(chunk)
        yield chunk
      }
    } finally {
      write(span, () => said(joined(chunks))).end()
    }
  }
}

function joined(chunks: readonly Chunk[]): Completion {
  const choices = chunks.flatMap((chunk) => chunk.choices[0] ?? [])
  const tool_calls: ToolCall[] = []
  for (const { index, id, function: piece } of choices.flatMap(({ delta }) => delta?.tool_calls ?? [])) {
    const call = (tool_calls[index] ??= { id, function: { name: '', arguments: '' } }).function
    call.name += piece?.name ?? ''
    call.arguments += piece?.arguments ?? ''
  }
  const message = { role: 'assistant', content: choices.map(({ delta }) => delta?.content ?? '').join(''), tool_calls }
  return { ...Object.assign({}, ...chunks), choices: [{ message, finish_reason: choices.at(-1)?.finish_reason }] } as Completion
}

const said = ({ id, model, usage, choices }: Completion) => ({
  'gen_ai.response.id': id,
  'gen_ai.response.model': model,
  'gen_ai.output.messages': choices.map(({ message, finish_reason }) => ({ ...message, finish_reason })),
  'gen_ai.usage.input_tokens': usage?.prompt_tokens,
  'gen_ai.usage.output_tokens': usage?.completion_tokens,
})
