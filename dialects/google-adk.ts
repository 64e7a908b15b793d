// Google's Agent Development Kit: span names say what a span is, gcp.vertex.agent.* holds Gemini's request and
// response. A tool that throws leaves, in JavaScript, a span without any attribute: only its name and scope tell.

import type { CallReading, Dialect, Flag, Reading, ToolReading } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import type { Attributes, Span } from '../data/span.ts'
import { decode, fillGaps, first, listOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const SCOPE = 'gcp.vertex.agent'
/** Newer releases write generate_content spans, below call_llm or in its place, the GenAI way: genai.ts. */
const NAMES = /^(call_llm|invocation|execute_tool\b|invoke_agent\b|agent_run\b)/

export default {
  name: 'google-adk',
  signs: { names: NAMES },

  matches: (item) =>
    item.signal === 'span' && NAMES.test(item.name) && (item.scope.name === SCOPE || item.attributes['gen_ai.system'] === SCOPE),

  read(item): Reading | null {
    const span = item as Span
    const { name, attributes } = span
    if (name === 'call_llm') return readCall(attributes)
    if (name.startsWith('execute_tool')) return isSummary(name) ? { kind: 'chain' } : readTool(span)
    if (name === 'invocation') return { kind: 'chain' }
    const agent = textOf(attributes['gen_ai.agent.name']) ?? textOf(name.replace(/^\w+ \[?|\]$/g, ''))
    return { kind: 'agent', name: agent, session: sessionOf(attributes) }
  },
} satisfies Dialect

/** Of parallel calls one more span tells of all of them. */
const isSummary = (name: string): boolean => name.includes('(merged')

function readCall(attributes: Attributes): CallReading {
  const input = decode(attributes['gcp.vertex.agent.llm_request'])
  const output = decode(attributes['gcp.vertex.agent.llm_response'])
  const config = recordOf(recordOf(input.value)?.config)
  const tools = listOf(config?.tools)
  const flags: Flag[] = input.truncated || output.truncated ? ['truncated'] : []
  const call = callOf(attributes, {
    operation: 'generate_content',
    prompt: readRequest(input.value),
    completion: undefined,
    tools: tools.length > 0 ? tools : undefined,
    finish: undefined,
    tokens: undefined,
    flags,
  })
  return {
    ...fillGaps<CallReading>(call, readResponse(output.value)),
    request_model: call.request_model ?? textOf(recordOf(input.value)?.model),
    agent: call.agent ?? textOf(recordOf(config?.labels)?.adk_agent_name),
  }
}

function readTool(span: Span): ToolReading {
  const { attributes, name } = span
  const returned = textOf(first(attributes, ['gcp.vertex.agent.tool_response', 'gen_ai.tool.call.result']))
  return {
    kind: 'tool',
    name: textOf(attributes['gen_ai.tool.name']) ?? textOf(name.replace(/^execute_tool ?/, '')),
    call_id: textOf(attributes['gen_ai.tool.call.id']),
    arguments: textOf(first(attributes, ['gcp.vertex.agent.tool_call_args', 'gen_ai.tool.call.arguments'])),
    result: returned,
    verdict: verdictOf(span, returned),
  }
}
