// Pydantic Logfire: its own instrumentations of providers, which keep request and response whole in request_data and
// response_data, user spans around tools, and feedback. Copies of spans that are pending, and log lines, are no calls.

import type { CallReading, Dialect, Reading, RewardReading, ToolReading } from '../data/dialect.ts'
import { callOf, contentOf } from '../data/genai.ts'
import { readAnswer, readRequest, readUsage } from '../data/provider_body.ts'
import { score } from '../data/score.ts'
import type { Attributes, Item, Span } from '../data/span.ts'
import { decode, first, jsonOf, listOf, recordOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

/** `logfire.openai`, `logfire.anthropic` …; other spans of a Logfire set-up are written by other instrumentations. */
const PROVIDERS = /^logfire\.(openai|anthropic|google|litellm|openai_agents)/
const NOT_SPANS: readonly unknown[] = ['pending_span', 'log', 'annotation']
/** How people call the spans that they put around a tool: `tool get_weather {city=}`. */
const TOOL = /^(?:running |calling |execute_)?tool:?\s+([\w.-]+)/i

export default {
  name: 'logfire',
  signs: { keys: ['logfire.span_type'], scopes: /^logfire(\.|$)/ },
  rewardSigns: { keys: ['logfire.feedback.name'] },

  matches: (item) =>
    item.signal === 'span' &&
    (NOT_SPANS.includes(item.attributes['logfire.span_type']) || item.scope.name === 'logfire' || PROVIDERS.test(item.scope.name)),

  read(item): Reading | null {
    const span = item as Span
    const { attributes, scope } = span
    const type = attributes['logfire.span_type']
    if (type === 'annotation') return { kind: 'evaluator', name: span.name }
    if (type === 'pending_span') return { kind: 'chain' }
    if (PROVIDERS.test(scope.name)) return isCall(span) ? readCall(attributes) : { kind: 'chain' }
    const tool = type === 'log' ? undefined : TOOL.exec(textOf(attributes['logfire.msg_template']) ?? span.name)?.[1]
    return tool === undefined ? { kind: 'chain' } : readTool(span, tool)
  },

  /** The value stands under the feedback's own name; it is about the span above. */
  rewards(item: Item): RewardReading[] {
    const name = textOf(item.attributes['logfire.feedback.name'])
    if (item.signal !== 'span' || name === undefined) return []
    const target = item.parent_span_id === '' ? undefined : { trace_id: item.trace_id, span_id: item.parent_span_id }
    return [
      {
        dimensions: [score(name, item.attributes[name])],
        source: 'human',
        annotator: textOf(item.attributes['logfire.feedback.source']),
        target,
      },
    ]
  },
} satisfies Dialect

/** A streamed answer comes in a log line after the span, with the whole request: that line is the call, and its span only asked. */
function isCall({ attributes, status }: Span): boolean {
  const answered =
    first(attributes, ['response_data', 'gen_ai.output.messages', 'gen_ai.response.id', 'gen_ai.usage.output_tokens']) !== undefined
  const operation = attributes['gen_ai.operation.name']
  return (answered || status === 2) && (operation === undefined || operation === 'chat')
}

function readCall(attributes: Attributes): CallReading {
  const request = decode(attributes.request_data)
  const response = recordOf(decode(attributes.response_data).value)
  const answer = readAnswer(response?.message ?? response?.combined_chunk_content)
  const content = contentOf(attributes)
  const tools = listOf(recordOf(request.value)?.tools)
  const call = callOf(attributes, {
    operation: 'chat',
    prompt: content.prompt.length > 0 ? content.prompt : readRequest(request.value),
    completion: content.completion ?? answer.completion,
    tools: content.tools ?? (tools.length > 0 ? tools : undefined),
    finish: content.finish,
    tokens: answer.tokens,
    flags: request.truncated && content.prompt.length === 0 ? [...content.flags, 'truncated'] : content.flags,
  })
  return { ...call, usage: call.usage ?? readUsage(recordOf(response?.usage)) }
}

/** The arguments are the attributes that the template names; what the function returned is there where it was asked to be. */
function readTool(span: Span, name: string): ToolReading {
  const { attributes } = span
  const properties = recordOf(recordOf(decode(attributes['logfire.json_schema']).value)?.properties) ?? {}
  const { return: returned, ...given } = Object.fromEntries(Object.keys(properties).map((key) => [key, attributes[key] ?? null]))
  const result = jsonOf(returned)
  return {
    kind: 'tool',
    name,
    arguments: Object.keys(given).length > 0 ? jsonOf(given) : undefined,
    result,
    verdict: verdictOf(span, result),
  }
}
