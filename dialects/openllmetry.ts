// OpenLLMetry: its own indexed attributes (before 0.55) for model calls, and the Traceloop SDK's decorators
// for tools, agents and workflows. Newer releases write model calls the GenAI way: genai.ts.

import type { CallReading, Dialect, Reading, ToolReading } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { readIndexedCall } from '../data/indexed_call.ts'
import type { Span } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { first, jsonOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

/** Keys that only an indexed model call has. Python drops the oldest attributes first, so one may be missing. */
const CALL_KEYS = ['llm.request.type', 'gen_ai.prompt.0.role', 'gen_ai.completion.0.role', 'gen_ai.completion.0.finish_reason']

export default {
  name: 'openllmetry',
  signs: { keys: ['traceloop.span.kind', ...CALL_KEYS] },

  matches: (item) =>
    item.signal === 'span' &&
    (item.attributes['traceloop.span.kind'] !== undefined || CALL_KEYS.some((key) => item.attributes[key] !== undefined)),

  read(item): Reading | null {
    const span = item as Span
    const { attributes } = span
    switch (attributes['traceloop.span.kind']) {
      case 'tool':
        return readTool(span)
      case 'agent':
        return {
          kind: 'agent' as const,
          name: textOf(first(attributes, ['traceloop.entity.name', 'gen_ai.agent.name'])),
          session: sessionOf(attributes),
        }
      case undefined:
        return attributes['llm.request.type'] === 'embedding' ? { kind: 'chain' } : readCall(span)
    }
    return { kind: 'chain' }
  },
} satisfies Dialect

function readCall({ attributes }: Span): CallReading {
  return callOf(attributes, {
    operation: attributes['llm.request.type'] === 'completion' ? 'text_completion' : 'chat',
    ...readIndexedCall(attributes, 'llm.request.functions'),
    flags: [],
  })
}

function readTool(span: Span): ToolReading {
  const { attributes } = span
  const returned = attributes['gen_ai.tool.call.result'] ?? attributes['traceloop.entity.output']
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: textOf(first(attributes, ['gen_ai.tool.name', 'traceloop.entity.name'])),
    call_id: textOf(attributes['gen_ai.tool.call.id']) ?? call_id,
    arguments: unwrapArguments(attributes['gen_ai.tool.call.arguments'] ?? attributes['traceloop.entity.input']),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
  }
}
