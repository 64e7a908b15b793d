// The Vercel AI SDK before its GenAI attributes, and with its legacy telemetry: ai.operationId says what a span is. Only
// the inner doGenerate and doStream are calls; generateText and streamText around them hold sums. Newer: genai.ts.

import type { CallReading, Dialect, Flag, Reading, ToolReading } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { joinMessages, readMessage, readMessages } from '../data/messages.ts'
import type { Attributes, Span } from '../data/span.ts'
import { decode, first, jsonOf, listOf, numberOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

export default {
  name: 'vercel',
  signs: { keys: ['ai.operationId'] },

  matches: (item) => item.signal === 'span' && item.attributes['ai.operationId'] !== undefined,

  read(item): Reading | null {
    const span = item as Span
    const { attributes } = span
    const operation = String(attributes['ai.operationId'])
    if (operation === 'ai.toolCall') return readTool(span)
    if (/\.do(Generate|Stream)$/.test(operation)) return readCall(attributes)
    if (/^ai\.(generate|stream)(Text|Object)$/.test(operation))
      return { kind: 'agent', name: agentOf(attributes), session: session(attributes) }
    return { kind: 'chain' }
  },
} satisfies Dialect

const agentOf = (attributes: Attributes) => textOf(first(attributes, ['ai.telemetry.functionId', 'resource.name']))

const session = (attributes: Attributes) => sessionOf(attributes) ?? textOf(attributes['ai.telemetry.metadata.sessionId'])

/** `ai.response.*`, which was `ai.result.*` before version 4. */
function readCall(attributes: Attributes): CallReading {
  const given = (name: string) => first(attributes, [`ai.response.${name}`, `ai.result.${name}`])
  const prompt = decode(attributes['ai.prompt.messages'])
  const asked = decode(given('toolCalls'))
  const flags: Flag[] = prompt.truncated || asked.truncated ? ['truncated'] : []
  const tools = listOf(attributes['ai.prompt.tools']).map((tool) => decode(tool).value ?? tool)
  const call = callOf(attributes, {
    operation: 'chat',
    prompt: readMessages(prompt.value),
    completion: joinMessages(
      readMessage({
        role: 'assistant',
        reasoning_content: given('reasoning') ?? null,
        content: given('text') ?? given('object') ?? null,
        tool_calls: listOf(asked.value),
      }),
    ),
    tools: tools.length > 0 ? tools : undefined,
    finish: textOf(first(attributes, ['ai.response.finishReason', 'ai.finishReason'])),
    tokens: undefined,
    flags,
  })
  return {
    ...call,
    request_model: call.request_model ?? textOf(attributes['ai.model.id']),
    response_model: call.response_model ?? textOf(given('model')),
    response_id: call.response_id ?? textOf(given('id')),
    usage: call.usage ?? usageOf(attributes),
    agent: agentOf(attributes),
    session: session(attributes),
  }
}

function usageOf(attributes: Attributes): CallReading['usage'] {
  const input = numberOf(first(attributes, ['ai.usage.inputTokens', 'ai.usage.promptTokens']))
  const output = numberOf(first(attributes, ['ai.usage.outputTokens', 'ai.usage.completionTokens']))
  return input === undefined && output === undefined ? undefined : { input, output }
}

/** A tool that succeeds leaves the status unset. */
function readTool(span: Span): ToolReading {
  const { attributes } = span
  const returned = jsonOf(attributes['ai.toolCall.result'])
  return {
    kind: 'tool',
    name: textOf(attributes['ai.toolCall.name']),
    call_id: textOf(attributes['ai.toolCall.id']),
    arguments: jsonOf(attributes['ai.toolCall.args']),
    result: returned,
    verdict: verdictOf(span, returned),
    agent: agentOf(attributes),
  }
}
