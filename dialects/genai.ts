// OpenTelemetry's own GenAI conventions on spans, newest and old: openai-v2, the JavaScript OpenAI
// instrumentation, OpenLLMetry from 0.55, Vercel AI SDK, Pydantic AI, Microsoft Agent Framework, Semantic
// Kernel, AutoGen, Strands and whoever else sets gen_ai.operation.name. Log records: genai-log.ts.

import type { AgentReading, CallReading, Dialect, Message, Reading, RewardReading, Tokens, ToolReading } from '../data/dialect.ts'
import { EVALUATION, readEvaluation } from '../data/evaluation.ts'
import { callOf, contentOf, inferenceOf, isMessageEvent, readMessageEvent, type Content, type EventReading } from '../data/genai.ts'
import { textIncludes } from '../data/held_text.ts'
import { joinMessages, readMessages, textIn, toolCallsIn, toolResultsIn } from '../data/messages.ts'
import { readLogprobs, tokensOf } from '../data/provider_body.ts'
import { parsePythonLiteral } from '../data/python_literal.ts'
import type { Attributes, Item, Span } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, first, jsonOf, listOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const DETAILS = 'gen_ai.client.inference.operation.details'

const AGENTS = new Set(['invoke_agent', 'create_agent'])

export default {
  name: 'genai',
  signs: {
    keys: ['gen_ai.operation.name', 'gen_ai.response.id'],
    names: /^(execute_tool |invoke_agent |running tool$|agent run$)/,
  },
  rewardSigns: { events: /^gen_ai\.evaluation\.result$/ },

  matches: (item) => item.signal === 'span' && operationOf(item) !== undefined,

  read(item): Reading | null {
    const span = item as Span
    const operation = operationOf(span)!
    const inference = inferenceOf(operation)
    if (inference !== undefined) return readCall(span, inference)
    if (operation === 'execute_tool') return readTool(span)
    if (AGENTS.has(operation)) return readAgent(span)
    return operation === 'guardrail_check' ? { kind: 'evaluator', name: span.name } : { kind: 'chain' }
  },

  rewards: (item: Item): RewardReading[] =>
    item.signal === 'log'
      ? []
      : item.events
          .filter((event) => event.name === EVALUATION)
          .map((event) => readEvaluation(event.attributes, { trace_id: item.trace_id, span_id: item.span_id })),
} satisfies Dialect

/** gen_ai.operation.name; where it is missing, the span's name, or a response id, which only a model call has. */
function operationOf({ attributes, name }: Span): string | undefined {
  const said = textOf(attributes['gen_ai.operation.name'])
  if (said !== undefined) return said
  if (name.startsWith('execute_tool ') || name === 'running tool') return 'execute_tool'
  if (name.startsWith('invoke_agent ') || (name === 'agent run' && attributes.agent_name !== undefined)) return 'invoke_agent'
  return attributes['gen_ai.response.id'] === undefined ? undefined : 'chat'
}

function readCall(span: Span, operation: string): CallReading {
  const content = contentIn(span)
  const recovered = recoverActions(content.completion)
  const call = callOf(span.attributes, {
    operation,
    prompt: content.prompt,
    completion: recovered ?? content.completion,
    tools: content.tools,
    finish: content.finish,
    tokens: logprobEvent(span),
    flags: recovered ? [...content.flags, 'actionRecovered'] : content.flags,
  })
  return isOpenAiAgents(span) ? { ...call, endpoint: undefined } : call
}

/** openai-agents-v2 says api.openai.com, whatever the endpoint is. */
const isOpenAiAgents = (span: Span) => span.scope.name === 'opentelemetry.instrumentation.openai_agents'

/** OpenLLMetry for JavaScript keeps logprobs in an event. */
function logprobEvent(span: Span): Tokens | undefined {
  const event = span.events.find(({ name }) => name === 'logprobs')
  return event && tokensOf([], [], readLogprobs(decode(event.attributes.logprobs).value), 'attribute')
}

/** The messages in the attributes or in a details event; where there are none, in events of their own. */
function contentIn(span: Span): Content {
  const details = span.events.filter(({ name }) => name === DETAILS).map(({ attributes }) => attributes)
  const content = contentOf(details.length > 0 ? Object.assign({}, ...details, span.attributes) : span.attributes)
  if (content.prompt.length > 0 || content.completion || content.flags.includes('truncated')) return content
  return { ...content, ...contentOfEvents(span) }
}

function contentOfEvents(span: Span): Pick<Content, 'prompt' | 'completion' | 'finish'> {
  const prompt: Message[] = []
  let answer: EventReading = {}
  for (const { name, attributes } of [...span.events, ...eventsAttribute(span)]) {
    if (isMessageEvent(name)) {
      const { messages, ...said } = readMessageEvent(name, attributes)
      if (messages) prompt.push(...messages)
      else answer = { ...answer, ...said }
    } else if (name === 'gen_ai.content.prompt') prompt.push(...readMessages(decode(attributes['gen_ai.prompt']).value))
    else if (name === 'gen_ai.content.completion') {
      answer = { completion: joinMessages(readMessages(decode(attributes['gen_ai.completion']).value)) }
    }
  }
  return { prompt, ...answer }
}

/** Pydantic AI's first version writes the events into one attribute. */
const eventsAttribute = ({ attributes }: Span): { name: string; attributes: Attributes }[] =>
  listOf(decode(attributes.events).value).flatMap((value) => {
    const event = recordOf(value)
    return event ? [{ name: String(event['event.name']), attributes: event }] : []
  })

/**
 * Tool calls that openai-agents-v2 wrote as the repr() of their objects into a text part:
 * `ResponseFunctionToolCall(arguments='…', call_id='…', name='…')`.
 */
function recoverActions(completion: Message | undefined): Message | undefined {
  let recovered = false
  const parts = completion?.parts.map((part) => {
    if (part.kind !== 'text' || !textIncludes(part, 'ToolCall') || !/^\w*ToolCall\w*\(/.test(part.text)) return part
    const call = recordOf(parsePythonLiteral(part.text))
    if (call?.name === undefined || call.arguments === undefined) return part
    recovered = true
    return {
      kind: 'tool_call' as const,
      id: textOf(call.call_id ?? call.id),
      name: String(call.name),
      arguments: jsonOf(call.arguments) ?? '',
    }
  })
  return recovered ? { role: 'assistant', parts: parts! } : undefined
}

/** Strands records arguments and result as messages, like a call's. */
function readTool(span: Span): ToolReading {
  const { attributes } = span
  const { prompt, completion } = contentIn(span)
  const asked = span.events.find(({ name }) => name === 'gen_ai.tool.message')?.attributes.content ?? toolCallsIn(prompt[0])[0]?.arguments
  const args = attributes['gen_ai.tool.call.arguments'] ?? attributes.tool_arguments ?? asked
  const answer = toolResultsIn(completion)[0]?.text ?? (textIn(completion) || undefined)
  const returned = attributes['gen_ai.tool.call.result'] ?? attributes.tool_response ?? answer
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: textOf(attributes['gen_ai.tool.name']) ?? textOf(span.name.replace(/^execute_tool /, '')),
    call_id: textOf(attributes['gen_ai.tool.call.id']) ?? call_id,
    arguments: unwrapArguments(args),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
    agent: textOf(attributes['gen_ai.agent.name']),
  }
}

const readAgent = ({ attributes, name }: Span): AgentReading => ({
  kind: 'agent',
  name: textOf(first(attributes, ['gen_ai.agent.name', 'agent_name'])) ?? /^invoke_agent (.+)$/.exec(name)?.[1],
  session: sessionOf(attributes),
})
