// Records the chat completions of an OpenAI client, streamed ones too, in OpenTelemetry's GenAI conventions. Left out: its other APIs.

import type { Span } from '@opentelemetry/api'

import type { Answer, Body, Chunk, Client, Completion, Message, Whole } from './openai_types.ts'
import { fail, headersOf, open } from './tracer.ts'

/** From now on the client's chat completions are spans, and say where they belong. It is the same client. */
export function trace<C extends Client>(client: C): C {
  const { completions } = client.chat
  const create = completions.create.bind(completions)
  completions.create = (body, options) => {
    const span = open(`chat ${body?.model}`, { 'gen_ai.operation.name': 'chat' })
    const answer = create(body, { ...options, headers: { ...headersOf(span), ...(options?.headers as object) } })
    quietly(() => observe(span, body, answer as Answer))
    return answer
  }
  return client
}

/** The client parses an answer when somebody asks for it, once: there it is looked at. */
function observe(span: Span, body: Body, answer: Answer): void {
  span.setAttributes({ 'gen_ai.request.model': body.model, 'gen_ai.input.messages': JSON.stringify(body.messages.map(messageOf)) })
  if (body.tools?.length) span.setAttribute('gen_ai.tool.definitions', JSON.stringify(body.tools))
  answer.asResponse().catch((error: unknown) => {
    fail(span, error)
    span.end()
  })
  const parse = answer.parseResponse.bind(answer)
  answer.parseResponse = async (...args) => {
    const parsed = await parse(...args)
    if (body.stream) parsed.iterator = watched(span, parsed.iterator)
    else end(span, parsed)
    return parsed
  }
}

/** Passes chunks on as they come, and ends the span with what they add up to. */
function watched(span: Span, iterate: () => AsyncIterable<Chunk>) {
  return async function* () {
    const whole: Whole = { content: '', tool_calls: [], about: {} }
    try {
      for await (const chunk of iterate()) {
        quietly(() => add(whole, chunk))
        yield chunk
      }
    } finally {
      const { content, tool_calls, finish_reason, about } = whole
      end(span, { ...about, choices: [{ message: { role: 'assistant', content, tool_calls }, finish_reason }] })
    }
  }
}

function add(whole: Whole, { choices: [choice], ...about }: Chunk): void {
  whole.about = { ...whole.about, ...about }
  if (choice?.finish_reason) whole.finish_reason = choice.finish_reason
  whole.content += choice?.delta?.content ?? ''
  for (const { index, id, function: { name = '', arguments: args = '' } = {} } of choice?.delta?.tool_calls ?? []) {
    const call = (whole.tool_calls[index] ??= { id, function: { name: '', arguments: '' } })
    call.function.name += name
    call.function.arguments += args
  }
}

function end(span: Span, { id, model, usage, choices }: Completion): void {
  quietly(() => {
    span.setAttributes({ 'gen_ai.response.id': id, 'gen_ai.response.model': model })
    span.setAttribute('gen_ai.output.messages', JSON.stringify(choices.map(({ message }) => messageOf(message))))
    const reasons = choices.map(({ finish_reason }) => finish_reason ?? '')
    span.setAttribute('gen_ai.response.finish_reasons', reasons)
    span.setAttributes({ 'gen_ai.usage.input_tokens': usage?.prompt_tokens, 'gen_ai.usage.output_tokens': usage?.completion_tokens })
  })
  span.end()
}

function messageOf({ role, content, tool_calls, tool_call_id }: Message): object {
  const text = typeof content === 'string' ? content : content ? JSON.stringify(content) : ''
  if (role === 'tool') return { role, parts: [{ type: 'tool_call_response', id: tool_call_id, response: text }] }
  const calls = (tool_calls ?? []).map((call) => ({ type: 'tool_call', id: call.id, ...call.function }))
  return { role, parts: [...(text ? [{ type: 'text', content: text }] : []), ...calls] }
}

/** An agent never fails for being watched. */
function quietly(work: () => void): void {
  try {
    work()
  } catch {
    // The span lacks what could not be read.
  }
}
