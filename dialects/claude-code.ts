// Claude Code: spans claude_code.* hold counts, ids and verdicts, but no text; that comes only in log records with the
// raw bodies, where they are turned on. Where tracing is off, other log records tell of calls and tools.

import type { CallReading, Dialect, Flag, PartReading, Reading, ToolReading, Verdict } from '../data/dialect.ts'
import { callOf } from '../data/genai.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import type { Attributes, LogRecord, Span, Value } from '../data/span.ts'
import { decode, first, jsonOf, listOf, numberOf, recordOf, sessionOf, textOf } from '../data/values.ts'
import { verdictOf } from '../data/verdict.ts'

const PREFIX = 'claude_code.'

export default {
  name: 'claude-code',
  signs: { names: /^claude_code\./ },

  matches: (item) => (item.signal === 'span' ? item.name : nameOf(item)).startsWith(PREFIX),

  read: (item): Reading | null => (item.signal === 'span' ? readSpan(item) : readRecord(item)),
} satisfies Dialect

/** The attribute event.name lacks the prefix that the body has. */
const nameOf = ({ event_name, body }: LogRecord): string =>
  typeof body === 'string' && body === `${PREFIX}${event_name}` ? body : event_name

function readSpan(span: Span): Reading {
  const { attributes } = span
  switch (span.name.slice(PREFIX.length)) {
    case 'interaction':
      return { kind: 'agent', name: 'claude-code', session: sessionOf(attributes) }
    case 'llm_request':
      return readCall(attributes)
    case 'tool':
      return { kind: 'tool', ...toolOf(attributes), verdict: verdictOf(span, undefined) }
    case 'tool.execution':
      return readExecution(span)
  }
  return { kind: 'chain' }
}

/** The verdict is that of the execution; the tool's own span says nothing, and also takes in the wait for the user. */
function readExecution({ attributes, parent_span_id, status }: Span): PartReading {
  const succeeded = boolean(attributes.success) ?? (status === 2 ? false : undefined)
  return {
    kind: 'part',
    of: parent_span_id,
    tool: succeeded === undefined ? {} : { verdict: verdict(succeeded, 'tool.execution', attributes) },
  }
}

/** Log records. Those written inside of a span say again what the spans say. */
function readRecord(record: LogRecord): Reading | null {
  const { attributes, span_id } = record
  switch (nameOf(record).slice(PREFIX.length)) {
    case 'api_request_body':
      return { kind: 'part', of: span_id, call: readBody(attributes, requestOf) }
    case 'api_response_body':
      return { kind: 'part', of: span_id, call: readBody(attributes, readResponse) }
    case 'api_request':
      return span_id === '' ? readCall(attributes) : null
    case 'tool_result':
      return span_id === '' ? readToolResult(attributes) : null
  }
  return null
}

/** The response's id is that of the HTTP request. */
function readCall(attributes: Attributes): CallReading {
  const call = callOf(attributes, {
    operation: 'chat',
    prompt: [],
    completion: undefined,
    tools: undefined,
    finish: undefined,
    tokens: undefined,
    flags: [],
  })
  const input = numberOf(attributes.input_tokens)
  const output = numberOf(attributes.output_tokens)
  return {
    ...call,
    request_model: call.request_model ?? textOf(attributes.model),
    response_id: call.response_id ?? textOf(attributes.request_id),
    finish: call.finish ?? textOf(attributes.stop_reason),
    usage: call.usage ?? { input, output, cache_read: numberOf(attributes.cache_read_tokens) },
  }
}

const requestOf = (body: Value | undefined): Partial<CallReading> => ({ prompt: readRequest(body), tools: listOf(recordOf(body)?.tools) })

function readBody(attributes: Attributes, read: (body: Value | undefined) => Partial<CallReading>): Partial<CallReading> {
  const { value, truncated } = decode(attributes.body)
  const flags: Flag[] = truncated || boolean(attributes.body_truncated) ? ['truncated'] : []
  return { ...read(value), flags }
}

function readToolResult(attributes: Attributes): ToolReading {
  const succeeded = boolean(attributes.success)
  const said =
    succeeded === undefined ? ({ status: 'unknown', evidence: 'no content' } as const) : verdict(succeeded, 'success', attributes)
  return { kind: 'tool', ...toolOf(attributes), result: textOf(attributes.error), verdict: said }
}

const toolOf = (attributes: Attributes): Pick<ToolReading, 'name' | 'call_id' | 'arguments'> => ({
  name: textOf(first(attributes, ['tool_name', 'gen_ai.tool.name'])),
  call_id: textOf(first(attributes, ['tool_use_id', 'gen_ai.tool.call.id'])),
  arguments: jsonOf(first(attributes, ['tool_input', 'tool_parameters'])),
})

const verdict = (succeeded: boolean, evidence: string, attributes: Attributes): Verdict => ({
  status: succeeded ? 'ok' : 'error',
  evidence,
  error_type: textOf(attributes['error.type']),
})

/** Spans write booleans, log records their names. */
const boolean = (value: Value | undefined): boolean | undefined =>
  value === true || value === 'true' ? true : value === false || value === 'false' ? false : undefined
