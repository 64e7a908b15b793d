// LlamaIndex's own OpenTelemetry exporter: spans are named Class.method-uuid and hold nothing; what happened is in
// their events, LLMChatStartEvent and so on, whose fields are written flat. Older spans of tools do not say which.

import type { CallReading, Dialect, Message, Reading, ToolReading } from '../data/dialect.ts'
import { joinMessages, readMessage } from '../data/messages.ts'
import { readResponse } from '../data/provider_body.ts'
import { parsePythonLiteral } from '../data/python_literal.ts'
import type { Attributes, Span, Value } from '../data/span.ts'
import { decode, fillGaps, jsonOf, listOf, recordOf, sessionOf, textOf, unflatten, type ValueRecord } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const SCOPE = 'llamaindex.opentelemetry.tracer'
const START = /^LLM(Chat|Completion)StartEvent$/
const END = /^LLM(Chat|Completion)EndEvent$/
const AGENT = /^(\w*Agent\w*)\.(run|a?chat|a?stream_chat|a?query)(-|$)/
const TOOL = /Tool\.(__call__|a?call)(-|$)/

export default {
  name: 'llamaindex',
  signs: { scopes: /^llamaindex\.opentelemetry\.tracer$/ },

  matches: (item) => item.signal === 'span' && item.scope.name === SCOPE,

  read(item): Reading | null {
    const span = item as Span
    if (span.events.some(({ name }) => START.test(name) || END.test(name))) return readCall(span)
    if (TOOL.test(span.name)) return readTool(span)
    const agent = AGENT.exec(span.name)?.[1]
    return agent === undefined ? { kind: 'chain' } : { kind: 'agent', name: agent, session: sessionOf(span.attributes) }
  },
} satisfies Dialect

function readCall({ events, attributes }: Span): CallReading {
  const start = events.find(({ name }) => START.test(name))
  const end = events.findLast(({ name }) => END.test(name))
  const asked = start?.attributes ?? {}
  const { model, model_name, ...params } = recordOf(field(asked, 'model_dict')) ?? {}
  const prompt = field(asked, 'messages') ?? textOf(asked.prompt)
  const response = recordOf(field(end?.attributes ?? {}, 'response'))
  const tools = listOf(recordOf(field(asked, 'additional_kwargs'))?.tools)
  const call: CallReading = {
    kind: 'call',
    operation: start?.name.includes('Completion') ? 'text_completion' : 'chat',
    request_model: textOf(model) ?? textOf(model_name),
    prompt: (Array.isArray(prompt) ? (prompt as readonly Value[]) : [prompt ?? null]).flatMap((message) => toMessages(message, 'user')),
    completion: joinMessages(toMessages(response?.message ?? response?.text ?? null, 'assistant')),
    tools: tools.length > 0 ? tools : undefined,
    params: Object.keys(params).length > 0 ? params : undefined,
    session: sessionOf(attributes),
    flags: [],
  }
  return fillGaps<CallReading>(call, readResponse(response?.raw))
}

/** A field of an event: flat as far as its lists, which are JSON; or whole as JSON, or as Python prints it. */
const field = (attributes: Attributes, name: string): Value | undefined => opened(unflatten(attributes, name) ?? attributes[name], name)

/** Fields that hold more fields. The text of others is what was said, even where it looks like JSON. */
const NESTED = new Set([
  'messages',
  'message',
  'response',
  'raw',
  'blocks',
  'additional_kwargs',
  'tool_calls',
  'tools',
  'choices',
  'usage',
  'model_dict',
])

function opened(value: Value | undefined, name: string): Value | undefined {
  if (typeof value === 'string') return NESTED.has(name) ? (parsePythonLiteral(value) ?? decode(value).value) : value
  if (Array.isArray(value)) return value.map((item: Value) => opened(item, '') ?? null)
  const record = recordOf(value)
  return record ? Object.fromEntries(Object.entries(record).map(([key, inner]) => [key, opened(inner, key) ?? null])) : value
}

/** ChatMessage: content is in blocks, and tool calls are in additional_kwargs or blocks of their own. */
function toMessages(value: Value, fallback: Message['role']): Message[] {
  const message = recordOf(value)
  if (!message) return readMessage(value, fallback)
  const { blocks, additional_kwargs, content } = message
  const kwargs = recordOf(additional_kwargs) ?? {}
  const role = textOf(message.role)
    ?.replace(/^MessageRole\./, '')
    .toLowerCase()
  return readMessage(
    {
      role: role ?? fallback,
      content: blocks === undefined ? (content ?? null) : listOf(blocks).map(toBlock),
      tool_calls: kwargs.tool_calls ?? null,
      tool_call_id: kwargs.tool_call_id ?? null,
    },
    fallback,
  )
}

function toBlock(value: Value): Value {
  const block: ValueRecord = recordOf(value) ?? {}
  if (block.block_type !== 'tool_call')
    return { type: 'text', ...block, ...(block.block_type === undefined ? {} : { type: block.block_type }) }
  return { type: 'tool_call', id: block.tool_call_id ?? null, name: block.tool_name ?? null, arguments: block.tool_kwargs ?? null }
}

/** Which tool it is, newer releases say in a summary of the event that called it, as Python prints it and cut off where it is long. */
function readTool(span: Span): ToolReading {
  const { attributes } = span
  const summary = attributes['llamaindex.step.input_event'] === 'ToolCall' ? textOf(attributes['llamaindex.step.input_summary']) : undefined
  const called = recordOf(parsePythonLiteral(summary ?? ''))
  return {
    kind: 'tool',
    name: textOf(called?.tool_name) ?? /^ToolCall\(tool_name='([^']+)'/.exec(summary ?? '')?.[1],
    call_id: textOf(called?.tool_id),
    arguments: jsonOf(called?.tool_kwargs),
    verdict: verdictOf(span, undefined),
  }
}
