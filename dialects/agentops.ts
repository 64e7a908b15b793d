// AgentOps, which agent-lightning's v0.x tracer builds on: indexed model calls, whose tool calls are only in
// child spans `tool_call.NAME`, and decorated functions, whose output was how a reward was first sent.

import type { CallReading, Dialect, PartReading, Reading, RewardReading, ToolReading } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { readIndexedCall } from '../data/indexed_call.ts'
import { score } from '../data/score.ts'
import type { Item, Span, Value } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, first, jsonOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

/** Where decorated functions leave what they returned. */
const OUTPUTS = ['agentops.task.output', 'agentops.entity.output']

export default {
  name: 'agentops',
  signs: { keys: ['agentops.span.kind', 'gen_ai.request.type'] },
  rewardSigns: { keys: OUTPUTS },

  matches: (item) =>
    item.signal === 'span' && (item.attributes['agentops.span.kind'] !== undefined || item.attributes['gen_ai.request.type'] !== undefined),

  read(item): Reading | null {
    const span = item as Span
    const { attributes, name } = span
    if (name.startsWith('tool_call.')) return readAction(span)
    if (rewardOf(attributes) !== undefined) return { kind: 'evaluator', name }
    switch (kindOf(span)) {
      case 'llm':
        return readCall(span)
      case 'tool':
        return readTool(span)
      case 'agent':
        return {
          kind: 'agent' as const,
          name: textOf(first(attributes, ['operation.name', 'agent.name'])),
          session: sessionOf(attributes),
        }
      case 'guardrail':
        return { kind: 'evaluator', name }
    }
    return { kind: 'chain' }
  },

  /** The output `{"type": "reward", "value": …}` of a decorated function. */
  rewards(item: Item): RewardReading[] {
    const value = rewardOf(item.attributes)
    return value === undefined ? [] : [{ dimensions: [score('primary', value)], primary: 'primary', source: 'environment' }]
  },
} satisfies Dialect

/** Some versions write the enum's name, `AgentOpsSpanKindValues.TOOL`. */
function kindOf({ attributes }: Span): string {
  const kind = textOf(attributes['agentops.span.kind'])?.replace(/^.*\./, '').toLowerCase()
  return kind ?? (attributes['gen_ai.request.type'] === 'embedding' ? 'chain' : 'llm')
}

function readCall({ attributes }: Span): CallReading {
  return callOf(attributes, {
    operation: attributes['gen_ai.request.type'] === 'completion' ? 'text_completion' : 'chat',
    ...readIndexedCall(attributes, 'gen_ai.request.functions'),
    flags: [],
  })
}

/** A tool call that the model asked for. It always says OK, since nothing was executed. */
function readAction({ attributes, parent_span_id }: Span): PartReading {
  return {
    kind: 'part',
    of: parent_span_id,
    action: {
      kind: 'tool_call',
      id: textOf(attributes['tool.call.id']),
      name: textOf(attributes['tool.name']) ?? '',
      arguments: jsonOf(attributes['tool.parameters']) ?? '',
    },
  }
}

function readTool(span: Span): ToolReading {
  const { attributes, name } = span
  const returned = attributes['agentops.tool.output'] ?? attributes['agentops.entity.output']
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: textOf(first(attributes, ['tool.name', 'operation.name'])) ?? textOf(name.replace(/\.tool$/, '')),
    call_id: textOf(attributes['tool.call.id']) ?? call_id,
    arguments: unwrapArguments(attributes['agentops.tool.input'] ?? attributes['agentops.entity.input']),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
  }
}

/** Undefined where the span is no reward; null where it is one without a value. */
function rewardOf(attributes: Item['attributes']): Value | undefined {
  const output = first(attributes, OUTPUTS)
  if (typeof output !== 'string' || !output.includes('"reward"')) return undefined
  const record = recordOf(decode(output).value)
  return record?.type === 'reward' ? (record.value ?? null) : undefined
}
