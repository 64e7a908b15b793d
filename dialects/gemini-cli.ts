// Gemini CLI: operations of its own names, and Gemini's contents under the GenAI keys. No agent stands above its calls:
// each is a trace of its own, and the conversation's id joins them. A tool that fails softly still says OK.

import type { Dialect, Reading, ToolReading } from '../data/dialect.ts'
import { callOf, contentOf } from '../data/genai.ts'
import type { Span, Value } from '../data/span.ts'
import { decode, first, jsonOf, listOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const OPERATIONS = new Set(['llm_call', 'tool_call', 'agent_call', 'schedule_tool_calls'])

export default {
  name: 'gemini-cli',
  signs: { keys: ['gen_ai.operation.name'], scopes: /^gemini-cli$/ },

  matches: (item) =>
    item.signal === 'span' && (OPERATIONS.has(String(item.attributes['gen_ai.operation.name'])) || item.scope.name === 'gemini-cli'),

  read(item): Reading | null {
    const span = item as Span
    const { attributes } = span
    switch (attributes['gen_ai.operation.name']) {
      case 'llm_call':
        return callOf(attributes, { operation: 'generate_content', tokens: undefined, ...contentOf(attributes) })
      case 'tool_call':
        return readTool(span)
      case 'agent_call':
        return { kind: 'agent', name: textOf(attributes['gen_ai.agent.name']), session: sessionOf(attributes) }
    }
    return { kind: 'chain' }
  },
} satisfies Dialect

function readTool(span: Span): ToolReading {
  const { attributes } = span
  const request = recordOf(decode(attributes['gen_ai.input.messages']).value)
  const output = attributes['gen_ai.output.messages']
  const completed = recordOf(decode(output).value)
  // Long results are cut, but their status comes first.
  const status = completed ? undefined : /^\{"status":"(error|success)"/.exec(jsonOf(output) ?? '')?.[1]
  return {
    kind: 'tool',
    name: textOf(attributes['gen_ai.tool.name']) ?? textOf(request?.name),
    call_id: textOf(first(attributes, ['gen_ai.tool.call_id', 'gen_ai.tool.call.id'])) ?? textOf(request?.callId),
    arguments: jsonOf(request?.args),
    result: resultOf(completed?.response),
    verdict: verdictOf(
      span,
      jsonOf(output),
      status === undefined ? undefined : { status: status === 'error' ? 'error' : 'ok', evidence: 'result payload' },
    ),
  }
}

/** What the model is given of it. */
function resultOf(response: Value | undefined): string | undefined {
  const parts = listOf(recordOf(response)?.responseParts).map((part) => recordOf(recordOf(part)?.functionResponse)?.response ?? part)
  return jsonOf(parts.length === 1 ? parts[0] : parts.length === 0 ? response : parts)
}
