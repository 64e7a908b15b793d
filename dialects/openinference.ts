// OpenInference (Arize): openinference.span.kind says what a span is, indexed llm.* attributes hold the
// messages, and input.value and output.value hold the raw request and response, which often know more.

import type { CallReading, Dialect, Flag, Message, Reading, RewardReading, ToolReading } from '../data/dialect.ts'
import { joinMessages, readMessages } from '../data/messages.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import { score } from '../data/score.ts'
import type { Attributes, Item, Span, Value } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, first, jsonOf, listOf, numberOf, recordOf, sessionOf, textOf, unflatten, type ValueRecord } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const SCOPES = /^(openinference\.instrumentation|@arizeai\/openinference)/

/** What is said of the span, its trace or its session: prefixes of indexed keys. */
const ANNOTATIONS = ['annotations', 'evaluations'].flatMap((kind) => [kind, `trace.${kind}`, `session.${kind}`])

export default {
  name: 'openinference',
  signs: { keys: ['openinference.span.kind'], scopes: SCOPES },
  rewardSigns: { keys: ANNOTATIONS.map((prefix) => `${prefix}.`) },

  matches: (item) => item.signal === 'span' && (item.attributes['openinference.span.kind'] !== undefined || SCOPES.test(item.scope.name)),

  read(item): Reading | null {
    const span = item as Span
    switch (kindOf(span.attributes)) {
      case 'LLM':
        return readCall(span)
      case 'TOOL':
        return readTool(span)
      case 'AGENT':
        return {
          kind: 'agent' as const,
          name: textOf(first(span.attributes, ['agent.name', 'graph.node.id'])) ?? textOf(span.name),
          session: sessionOf(span.attributes),
        }
      case 'EVALUATOR':
      case 'GUARDRAIL':
        return { kind: 'evaluator', name: span.name }
    }
    const node = graphNode(span.attributes)
    // A node of a graph is who speaks there.
    return node !== undefined && node === span.name ? { kind: 'agent', name: node, session: sessionOf(span.attributes) } : { kind: 'chain' }
  },

  rewards: (item: Item): RewardReading[] => (item.signal === 'span' ? readAnnotations(item) : []),
} satisfies Dialect

const kindOf = (attributes: Attributes): string => String(attributes['openinference.span.kind']).toUpperCase()

/** In the metadata of every run below a node of a LangGraph. The graph of a ready-made agent has nodes too, which are its machinery. */
function graphNode(attributes: Attributes): string | undefined {
  const metadata = recordOf(decode(attributes.metadata).value)
  return metadata?.ls_integration === 'langgraph' ? textOf(metadata.langgraph_node) : undefined
}

function readCall(span: Span): CallReading {
  const { attributes } = span
  const output = decode(attributes['output.value'])
  const parameters = recordOf(decode(attributes['llm.invocation_parameters']).value) ?? {}
  const body = readResponse(output.value)
  const { messages, fromRaw, truncated } = promptOf(attributes)
  const indexed = joinMessages(readMessages(answers(unflatten(attributes, 'llm.output_messages'), parameters)))
  const completion = richer(indexed, body.completion)
  const { model, tools: _tools, ...params } = parameters
  const flags: Flag[] = []
  if (fromRaw || (completion !== indexed && indexed)) flags.push('inputFromRaw')
  if (truncated || (output.truncated && !completion)) flags.push('truncated')
  if (parameters.previous_response_id) flags.push('historyIncomplete')
  return {
    kind: 'call',
    operation: 'chat',
    request_model: textOf(attributes['llm.request.model_name']) ?? textOf(model),
    response_model: textOf(first(attributes, ['llm.response.model_name', 'llm.model_name'])) ?? body.response_model,
    response_id: body.response_id,
    prompt: messages,
    completion,
    tools: toolsOf(attributes),
    params,
    finish: textOf(attributes['llm.finish_reason']) ?? body.finish,
    usage: usageOf(attributes) ?? body.usage,
    tokens: body.tokens,
    session: sessionOf(attributes),
    flags,
  }
}

/** Of several choices the first counts; several messages of one choice are its parts. */
const answers = (messages: Value | undefined, { n }: ValueRecord): Value | undefined =>
  Array.isArray(messages) && (numberOf(n) ?? 1) > 1 ? messages[0] : messages

/** The indexed prompt, or the raw one where the indexed keys lost content or call ids (LangChain for JavaScript). */
function promptOf(attributes: Attributes): { messages: readonly Message[]; fromRaw: boolean; truncated: boolean } {
  const written = listOf(unflatten(attributes, 'llm.input_messages'))
  const messages = readMessages(written)
  const legacy = listOf(unflatten(attributes, 'llm.prompts')).map((prompt) => recordOf(recordOf(prompt)?.prompt)?.text ?? null)
  if (messages.length === 0 && legacy.length > 0) return { messages: readMessages(legacy), fromRaw: false, truncated: false }
  if (written.length > 0 && messages.length >= written.length && idsComplete(messages))
    return { messages, fromRaw: false, truncated: false }

  const input = decode(attributes['input.value'])
  const raw = readRequest(input.value)
  return worth(raw) > worth(messages)
    ? { messages: raw, fromRaw: messages.length > 0, truncated: false }
    : { messages, fromRaw: false, truncated: input.truncated && messages.length === 0 }
}

const idsComplete = (messages: readonly Message[]) =>
  messages.every(({ parts }) => parts.every((part) => (part.kind !== 'tool_call' && part.kind !== 'tool_result') || part.id !== undefined))

/** How much a reading of the prompt holds: its parts, and those of them that have an id. */
const worth = (messages: readonly Message[]) =>
  messages.reduce((sum, { parts }) => sum + parts.reduce((n, part) => n + ('id' in part && part.id !== undefined ? 2 : 1), 0), 0)

function richer(indexed: Message | undefined, raw: Message | undefined): Message | undefined {
  if (!indexed || !raw) return indexed ?? raw
  return idsComplete([indexed]) || worth([raw]) <= worth([indexed]) ? indexed : raw
}

function usageOf(attributes: Attributes): CallReading['usage'] {
  const count = (key: string) => numberOf(attributes[`llm.token_count.${key}`])
  if (count('prompt') === undefined && count('completion') === undefined) return undefined
  return {
    input: count('prompt'),
    output: count('completion'),
    cache_read: count('prompt_details.cache_read'),
    reasoning: count('completion_details.reasoning'),
  }
}

function toolsOf(attributes: Attributes): readonly Value[] | undefined {
  const tools = listOf(unflatten(attributes, 'llm.tools')).map((tool) => decode(recordOf(recordOf(tool)?.tool)?.json_schema).value ?? tool)
  return tools.length > 0 ? tools : undefined
}

function readTool(span: Span): ToolReading {
  const { attributes } = span
  const returned = attributes['output.value']
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: textOf(attributes['tool.name']) ?? textOf(span.name),
    call_id: textOf(first(attributes, ['tool_call.id', 'tool.id', 'tool.call_id'])) ?? call_id,
    arguments: unwrapArguments(attributes['input.value']),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
  }
}

const ANNOTATORS: Readonly<Record<string, RewardReading['source']>> = { HUMAN: 'human', LLM: 'judge', CODE: 'environment' }

/** annotations.N.annotation.* and evaluations.N.evaluation.*. */
const readAnnotations = (span: Span): RewardReading[] =>
  ANNOTATIONS.flatMap((prefix) =>
    listOf(unflatten(span.attributes, prefix)).map((entry) => readAnnotation(recordOf(entry) ?? {}, targetOf(span, prefix))),
  )

function readAnnotation(entry: ValueRecord, target: NonNullable<RewardReading['target']>): RewardReading {
  const annotation = recordOf(entry.annotation ?? entry.evaluation) ?? {}
  const annotator = textOf(annotation.annotator_kind)
  return {
    dimensions: [score(textOf(annotation.name) ?? 'annotation', annotation.score, annotation.label)],
    source: ANNOTATORS[annotator ?? ''] ?? 'judge',
    annotator: textOf(annotation.identifier) ?? annotator,
    target,
  }
}

/** An evaluator's span carries what it found about the one span it links to; any other span speaks of itself. */
function targetOf(span: Span, prefix: string): NonNullable<RewardReading['target']> {
  const link = span.links.length === 1 && kindOf(span.attributes) === 'EVALUATOR' ? span.links[0]! : undefined
  const trace_id = link?.trace_id ?? span.trace_id
  if (prefix.startsWith('trace.')) return { trace_id }
  const session = sessionOf(span.attributes)
  if (prefix.startsWith('session.')) return session === undefined ? { trace_id } : { session }
  return { trace_id, span_id: link?.span_id ?? span.span_id }
}
