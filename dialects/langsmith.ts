// LangSmith over OpenTelemetry: langsmith.span.kind says what a run is; gen_ai.prompt and gen_ai.completion hold
// its inputs and outputs whole, in Python as bytes. Of a model call they are the provider's own bodies.

import type { CallReading, Dialect, Flag, Message, Part, Reading, ToolReading } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { toolCallsIn, type ToolCall } from '../data/messages.ts'
import { readAnswer, readRequest } from '../data/provider_body.ts'
import type { Attributes, Span, Value } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, fillGaps, jsonOf, listOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

export default {
  name: 'langsmith',
  signs: { keys: ['langsmith.span.kind'], scopes: /^langsmith$/ },

  matches: (item) => item.signal === 'span' && (item.attributes['langsmith.span.kind'] !== undefined || item.scope.name === 'langsmith'),

  read(item): Reading | null {
    const span = item as Span
    const { attributes } = span
    switch (attributes['langsmith.span.kind']) {
      case 'llm':
        return readCall(attributes)
      case 'tool':
        return readTool(span)
    }
    // No kind of run is called an agent: the one that everything is in, is.
    if (span.parent_span_id !== '') return { kind: 'chain' }
    const name = textOf(attributes['langsmith.metadata.lc_agent_name']) ?? textOf(span.name)
    return { kind: 'agent', name, session: sessionOf(attributes) }
  },
} satisfies Dialect

function readCall(attributes: Attributes): CallReading {
  const input = decode(attributes['gen_ai.prompt'])
  const output = decode(attributes['gen_ai.completion'])
  const tools = listOf(recordOf(input.value)?.tools)
  const flags: Flag[] = input.truncated || output.truncated ? ['truncated'] : []
  const call = callOf(attributes, {
    operation: 'chat',
    prompt: readRequest(input.value),
    completion: undefined,
    tools: tools.length > 0 ? tools : undefined,
    finish: undefined,
    tokens: undefined,
    flags,
  })
  const answer = readAnswer(output.value)
  const [joined] = toolCallsIn(answer.completion).filter(({ arguments: written }) => documentsIn(written).length > 1)
  if (!joined) return fillGaps<CallReading>(call, answer)
  const parts = takenApart(joined, tools)
  const completion: Message | undefined = parts && {
    ...answer.completion!,
    parts: answer.completion!.parts.flatMap((part) => (part === joined ? parts : [part])),
  }
  return fillGaps<CallReading>({ ...call, flags: parts ? [...flags, 'actionRecovered'] : flags }, { ...answer, completion })
}

/**
 * The wrapper for JavaScript makes one of the parallel tool calls of a streamed answer: `get_weatherget_time`, `{"a":1}{"b":2}`, and the id of
 * the first. Undefined where the names cannot be told from each other.
 */
function takenApart({ id, name, arguments: written }: ToolCall, tools: readonly Value[]): Part[] | undefined {
  const documents = documentsIn(written)
  const known = tools.map((tool) => textOf(recordOf(recordOf(tool)?.function)?.name) ?? '').sort((a, b) => b.length - a.length)
  const parts: Part[] = []
  let rest = name
  for (const [i, document] of documents.entries()) {
    const next = known.find((tool) => tool !== '' && rest.startsWith(tool))
    if (next === undefined) return undefined
    rest = rest.slice(next.length)
    parts.push({ kind: 'tool_call', ...(i === 0 && id !== undefined ? { id } : {}), name: next, arguments: document })
  }
  return rest === '' ? parts : undefined
}

/** JSON objects written one after the other. */
function documentsIn(text: string): string[] {
  const found: string[] = []
  let [depth, start, quoted] = [0, 0, false]
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (quoted && character === '\\') i++
    else if (character === '"') quoted = !quoted
    else if (quoted) continue
    else if (character === '{') depth++
    else if (character === '}' && --depth === 0) {
      found.push(text.slice(start, i + 1))
      start = i + 1
    }
  }
  return found
}

function readTool(span: Span): ToolReading {
  const { attributes } = span
  const returned = outOf(attributes['gen_ai.completion'], 'output')
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: textOf(attributes['gen_ai.tool.name']) ?? textOf(span.name),
    call_id,
    arguments: unwrapArguments(outOf(attributes['gen_ai.prompt'], 'input')),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
  }
}

/** Runs whose input or output is no object are recorded as an object with that one key. */
function outOf(value: Value | undefined, key: string): Value | undefined {
  const record = recordOf(decode(value).value)
  if (!record || Object.keys(record).length !== 1 || !(key in record)) return value
  const inner = record[key]!
  // A tool may have one parameter of that name: LangChain's own wrapper holds all arguments as text.
  return key === 'output' || recordOf(decode(inner).value) ? inner : value
}
