// Records the chat completions of an OpenAI client, streamed ones too, in OpenTelemetry's GenAI conventions. Left out: its other APIs.

import type { Span } from '@opentelemetry/api'

import { fail, headersOf, open } from './tracer.ts'

type Client = { chat: { completions: { create(body: any, options?: any): any } } }

/** From now on the client's chat completions are spans, and say where they belong. It is the same client. */
export function trace<C extends Client>(client: C): C {
  const { completions } = client.chat
  const create = completions.create.bind(completions)
  completions.create = (body, options) => {
    const span = open(`chat ${body?.model}`, { 'gen_ai.operation.name': 'chat' })
    const answer = create(body, { ...options, headers: { ...headersOf(span), ...options?.headers } })
    quietly(() => observe(span, body, answer))
    return answer
  }
  return client
}

/** The client parses an answer when somebody asks for it, once: there it is looked at. */
function observe(span: Span, body: any, answer: any): void {
  span.setAttributes({ 'gen_ai.request.model': body.model, 'gen_ai.input.messages': JSON.stringify(body.messages.map(messageOf)) })
  if (body.tools?.length) span.setAttribute('gen_ai.tool.definitions', JSON.stringify(body.tools))
  answer.asResponse().catch((error: unknown) => {
    fail(span, error)
    span.end()
  })
  const parse = answer.parseResponse
  answer.parseResponse = async (...args: unknown[]) => {
    const parsed = await parse.apply(answer, args)
    if (body.stream) parsed.iterator = watched(span, parsed.iterator)
    else end(span, parsed)
    return parsed
  }
}

/** Passes chunks on as they come, and ends the span with what they add up to. */
function watched(span: Span, iterate: () => AsyncIterable<any>) {
  return async function* () {
    const whole: any = { choices: [{ message: { role: 'assistant', content: '', tool_calls: [] } }] }
    try {
      for await (const chunk of iterate()) {
        quietly(() => add(whole, chunk))
        yield chunk
      }
    } finally {
      end(span, whole)
    }
  }
}

function add(whole: any, { id, model, usage, choices: [choice] }: any): void {
  Object.assign(whole, { id, model }, usage && { usage })
  const { message } = whole.choices[0]
  if (choice?.finish_reason) whole.choices[0].finish_reason = choice.finish_reason
  message.content += choice?.delta?.content ?? ''
  for (const { index, id, function: { name = '', arguments: args = '' } = {} } of choice?.delta?.tool_calls ?? []) {
    const call = (message.tool_calls[index] ??= { id, function: { name: '', arguments: '' } })
    call.function.name += name
    call.function.arguments += args
  }
}

function end(span: Span, { id, model, usage, choices }: any): void {
  quietly(() => {
    span.setAttributes({ 'gen_ai.response.id': id, 'gen_ai.response.model': model })
    span.setAttribute('gen_ai.output.messages', JSON.stringify(choices.map(({ message }: any) => messageOf(message))))
    const reasons = choices.map(({ finish_reason }: any) => finish_reason)
    span.setAttribute('gen_ai.response.finish_reasons', reasons)
    span.setAttributes({ 'gen_ai.usage.input_tokens': usage?.prompt_tokens, 'gen_ai.usage.output_tokens': usage?.completion_tokens })
  })
  span.end()
}

function messageOf({ role, content, tool_calls = [], tool_call_id }: any): object {
  const text = typeof content === 'string' ? content : content ? JSON.stringify(content) : ''
  if (role === 'tool') return { role, parts: [{ type: 'tool_call_response', id: tool_call_id, response: text }] }
  const calls = (tool_calls ?? []).map((call: any) => ({ type: 'tool_call', id: call.id, ...call.function }))
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
