// The Langfuse SDK: langfuse.observation.type says what a span is, and input and output hold what the
// wrapped function got and gave, as JSON. Scores go to Langfuse's own API, never over OTLP.

import type { CallReading, Dialect, Flag, Message, Reading, ToolReading } from '../data/dialect.ts'
import { toolCallsIn } from '../data/messages.ts'
import { readAnswer, readRequest, readUsage } from '../data/provider_body.ts'
import type { Attributes, Span, Value } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, jsonOf, listOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const INPUT = 'langfuse.observation.input'
const OUTPUT = 'langfuse.observation.output'

export default {
  name: 'langfuse',
  signs: { keys: ['langfuse.observation.type'], scopes: /^langfuse-sdk$/ },

  matches: (item) =>
    item.signal === 'span' && (item.attributes['langfuse.observation.type'] !== undefined || item.scope.name === 'langfuse-sdk'),

  read(item): Reading | null {
    const span = item as Span
    switch (span.attributes['langfuse.observation.type']) {
      case 'generation':
        return readCall(span.attributes)
      case 'tool':
        return readTool(span)
      case 'agent':
        return { kind: 'agent', name: textOf(span.name), session: sessionOf(span.attributes) }
      case 'evaluator':
      case 'guardrail':
        return { kind: 'evaluator', name: span.name }
    }
    return { kind: 'chain' }
  },
} satisfies Dialect

/** The one model name is the response's, once there is a response. */
function readCall(attributes: Attributes): CallReading {
  const input = decode(attributes[INPUT])
  const output = decode(attributes[OUTPUT])
  const { tools, request } = toolsApart(input.value)
  const { completion } = readAnswer(output.value)
  const flags: Flag[] = input.truncated || output.truncated ? ['truncated'] : []
  return {
    kind: 'call',
    operation: 'chat',
    completion: isRunTogether(completion) ? undefined : completion,
    response_model: textOf(attributes['langfuse.observation.model.name']),
    prompt: readRequest(request),
    tools: tools.length > 0 ? tools : undefined,
    params: recordOf(decode(attributes['langfuse.observation.model.parameters']).value),
    usage: readUsage(recordOf(decode(attributes['langfuse.observation.usage_details']).value)),
    session: sessionOf(attributes),
    flags,
  }
}

/** Of streamed parallel tool calls the SDK for JavaScript makes one, without an id: `{"a":1}{"a":2}`. */
const isRunTogether = (completion: Message | undefined): boolean =>
  toolCallsIn(completion).some((part) => part.id === undefined && decode(part.arguments).truncated)

/** The LangChain callback adds the tool definitions to the messages, as messages of role `tool`. */
function toolsApart(input: Value | undefined): { tools: readonly Value[]; request: Value | undefined } {
  if (!Array.isArray(input)) return { tools: listOf(recordOf(input)?.tools), request: input }
  const definition = (message: Value) => (recordOf(message)?.role === 'tool' ? recordOf(recordOf(message)!.content) : undefined)
  const isDefinition = (message: Value) => definition(message)?.function !== undefined || definition(message)?.input_schema !== undefined
  return {
    tools: input.filter(isDefinition).map((message: Value) => definition(message)!),
    request: input.filter((message: Value) => !isDefinition(message)),
  }
}

/** The SDK for JavaScript leaves the status unset where it sets the level. */
function readTool(span: Span): ToolReading {
  const { attributes } = span
  const returned = attributes[OUTPUT]
  const { text, call_id } = unwrapResult(returned)
  const failed = attributes['langfuse.observation.level'] === 'ERROR'
  return {
    kind: 'tool',
    name: textOf(span.name),
    call_id,
    arguments: unwrapArguments(attributes[INPUT]),
    result: text,
    verdict: verdictOf(span, jsonOf(returned), failed ? { status: 'error', evidence: 'langfuse level' } : undefined),
  }
}
