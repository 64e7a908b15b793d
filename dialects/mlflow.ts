// MLflow tracing: mlflow.spanType says what a span is; inputs and outputs are the provider's own request and
// response. Every value is JSON text, plain strings too: "\"TOOL\"".

import type { CallReading, Dialect, Flag, Reading, ToolReading } from '../data/dialect.ts'
import { readAnswer, readRequest, readUsage } from '../data/provider_body.ts'
import type { Attributes, Span, Value } from '../data/span.ts'
import { unwrapArguments, unwrapResult } from '../data/tool_values.ts'
import { decode, jsonOf, listOf, recordOf, textOf, type Decoded } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

export default {
  name: 'mlflow',
  signs: { keys: ['mlflow.spanType'] },

  matches: (item) => item.signal === 'span' && item.attributes['mlflow.spanType'] !== undefined,

  read(item): Reading | null {
    const span = item as Span
    const { attributes } = span
    switch (valueOf(attributes, 'mlflow.spanType').value) {
      case 'CHAT_MODEL':
      case 'LLM':
        return readCall(attributes)
      case 'TOOL':
        return readTool(span)
      case 'AGENT':
        return { kind: 'agent', name: nameOf(span), session: sessionOf(attributes) }
      case 'EVALUATOR':
      case 'GUARDRAIL':
        return { kind: 'evaluator', name: span.name }
    }
    return { kind: 'chain' }
  },
} satisfies Dialect

function valueOf(attributes: Attributes, key: string): Decoded {
  const value = attributes[key]
  return typeof value === 'string' && value.startsWith('"') ? unquote(value) : decode(value)
}

/** JSON text of a string. One without an end was cut. */
function unquote(text: string): Decoded {
  try {
    return { value: JSON.parse(text) as Value, truncated: false }
  } catch {
    return { value: undefined, truncated: true }
  }
}

const sessionOf = (attributes: Attributes): string | undefined => textOf(valueOf(attributes, 'mlflow.trace.session').value)

/** Spans of one name are numbered; the function's name is not. */
const nameOf = (span: Span): string | undefined => textOf(valueOf(span.attributes, 'mlflow.spanFunctionName').value) ?? textOf(span.name)

function readCall(attributes: Attributes): CallReading {
  const input = valueOf(attributes, 'mlflow.spanInputs')
  const output = valueOf(attributes, 'mlflow.spanOutputs')
  const request = recordOf(input.value)
  const body = readAnswer(output.value)
  const tools = listOf(valueOf(attributes, 'mlflow.chat.tools').value ?? request?.tools)
  const flags: Flag[] = input.truncated || output.truncated ? ['truncated'] : []
  if (request?.previous_response_id) flags.push('historyIncomplete')
  return {
    kind: 'call',
    operation: 'chat',
    ...body,
    request_model: textOf(request?.model) ?? textOf(valueOf(attributes, 'mlflow.llm.model').value),
    prompt: readRequest(input.value),
    tools: tools.length > 0 ? tools : undefined,
    usage: readUsage(recordOf(valueOf(attributes, 'mlflow.chat.tokenUsage').value)) ?? body.usage,
    session: sessionOf(attributes),
    flags,
  }
}

function readTool(span: Span): ToolReading {
  const returned = valueOf(span.attributes, 'mlflow.spanOutputs').value
  const { text, call_id } = unwrapResult(returned)
  return {
    kind: 'tool',
    name: nameOf(span),
    call_id,
    arguments: unwrapArguments(valueOf(span.attributes, 'mlflow.spanInputs').value),
    result: text,
    verdict: verdictOf(span, jsonOf(returned)),
  }
}
