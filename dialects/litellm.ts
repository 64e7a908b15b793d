// The LiteLLM proxy: litellm_request is the call, in GenAI attributes; raw_gen_ai_request below it holds what went
// to the provider and came back, as Python text, with the token ids and logprobs that an engine returned.

import type { CallReading, Dialect, PartReading, Reading } from '../data/dialect.ts'
import { callOf, contentOf } from '../data/genai.ts'
import { readIndexedCall } from '../data/indexed_call.ts'
import { joinMessages, readMessage } from '../data/messages.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import type { Attributes, Span } from '../data/span.ts'
import { decode, first, listOf, recordOf, textOf, unflatten } from '../data/values.ts'

const NAMES = new Set(['litellm_request', 'raw_gen_ai_request'])
/** LiteLLM's call types that are inference, with and without `a` for asynchronous. */
const INFERENCE = /^a?(chat|completion|text_completion|responses|anthropic_messages|generate_content)$/

export default {
  name: 'litellm',
  signs: { names: /^(litellm_request|raw_gen_ai_request)$/, scopes: /^litellm$/ },

  matches: (item) => item.signal === 'span' && (item.scope.name === 'litellm' || NAMES.has(item.name)),

  read(item): Reading | null {
    const span = item as Span
    if (span.name === 'raw_gen_ai_request') return readRaw(span)
    if (span.name === 'guardrail') return { kind: 'evaluator', name: span.name }
    // Without a span of its own for the request, the proxy writes it on its root.
    const operation = INFERENCE.exec(textOf(first(span.attributes, ['gen_ai.operation.name', 'llm.request.type'])) ?? '')?.[1]
    return operation === undefined ? { kind: 'chain' } : readCall(span.attributes, operation === 'text_completion' ? operation : 'chat')
  },
} satisfies Dialect

/** Older proxies write indexed messages; current ones still do so for tool calls, one an index and without their ids. */
function readCall(attributes: Attributes, operation: string): CallReading {
  const content = contentOf(attributes)
  const { prompt, completion, tools, finish } = readIndexedCall(attributes, 'llm.request.functions')
  const asked = listOf(unflatten(attributes, 'gen_ai.completion')).map((entry) => recordOf(entry)?.function_call)
  const calls = asked.filter((call) => call !== undefined)
  return callOf(attributes, {
    operation,
    prompt: content.prompt.length > 0 ? content.prompt : prompt,
    completion: content.completion ?? (calls.length > 0 ? joinMessages(readMessage({ role: 'assistant', tool_calls: calls })) : completion),
    tools: content.tools ?? tools,
    finish: content.finish ?? finish,
    tokens: undefined,
    flags: content.flags,
  })
}

/** `llm.{provider}.messages`, `llm.{provider}.choices` and so on: request and response mixed. */
function readRaw({ attributes, parent_span_id }: Span): PartReading {
  const providers = Object.values(recordOf(unflatten(attributes, 'llm')) ?? {}).map(recordOf)
  const fields = providers.find((provider) => provider?.messages !== undefined || provider?.choices !== undefined)
  const body = Object.fromEntries(Object.entries(fields ?? {}).map(([key, value]) => [key, decode(value).value ?? null]))
  return { kind: 'part', of: parent_span_id, call: { ...readResponse(body), prompt: readRequest(body) } }
}
