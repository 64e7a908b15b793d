// A call as a span, in OpenTelemetry's GenAI conventions (dialects/genai.ts reads them) and with what only an endpoint knows: token
// ids, logprobs, the version that answered, and the rollout that the call was made for.

import type { Message, Part, Tokens } from '../data/dialect.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import type { Value } from '../data/span.ts'
import type { Said } from './engines/engine.ts'
import type { ApiError } from './errors.ts'
import { isJson, type Json } from './fields.ts'
import type { Origin } from './origin.ts'
import { spanBytes, type Attribute } from './span_bytes.ts'

export interface CallRecord {
  readonly span_id: string
  readonly trace_id: string
  readonly parent_span_id: string
  readonly origin: Origin
  /** Undefined where the path was none that calls a model. */
  readonly operation: string
  /** What the client sent; undefined where it was no JSON object. */
  readonly body: Json | undefined
  readonly said: Said
  readonly error: ApiError | undefined
  /** Where the endpoint listens. */
  readonly server: { readonly host: string; readonly port: number }
  /** Milliseconds since the epoch. */
  readonly started_at: number
  readonly ended_at: number
}

const CLIENT = 3
const SERVER = 2

/** As spanBytes has it. */
export function callSpan(record: CallRecord): Buffer {
  const { trace_id, span_id, parent_span_id, origin, operation, said, error, started_at, ended_at } = record
  const body = said.body ?? record.body ?? {}
  const model = typeof body.model === 'string' ? body.model : undefined
  const response = error ? undefined : said.response?.()
  const read = response ? readResponse(response as Value) : {}
  const server = said.server ?? record.server
  const attributes: Record<string, Attribute | undefined> = {
    ...origin.attributes,
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': said.server ? 'openai' : 'leyden',
    'gen_ai.request.model': model,
    ...paramsOf(body, said.params),
    'gen_ai.response.id': read.response_id,
    'gen_ai.response.model': read.response_model,
    'gen_ai.response.finish_reasons': response ? finishReasons(response) : undefined,
    'gen_ai.usage.input_tokens': read.usage?.input,
    'gen_ai.usage.output_tokens': read.usage?.output,
    'gen_ai.input.messages': messagesText(readRequest(body as Value)),
    'gen_ai.output.messages': response && messagesText(answersIn(response, read.completion)),
    'gen_ai.tool.definitions': Array.isArray(body.tools) && body.tools.length > 0 ? JSON.stringify(body.tools) : undefined,
    ...tokenAttributes(error ? undefined : (said.tokens ?? read.tokens)),
    'leyden.policy.version': said.policy_version,
    'gen_ai.response.time_to_first_chunk': said.first_token_at === undefined ? undefined : (said.first_token_at - started_at) / 1_000,
    'server.address': server.host,
    'server.port': server.port,
    'error.type': error && (error.code ?? String(error.status)),
    'http.response.status_code': error?.status,
  }
  return spanBytes({
    ...{ trace_id, span_id, parent_span_id, started_at, ended_at, attributes },
    name: model === undefined ? operation : `${operation} ${model}`,
    kind: said.server ? CLIENT : SERVER,
    error: error?.message,
  })
}

/** By its name in the convention, those that a request may give it. */
const PARAMS: readonly (readonly [string, ...string[]])[] = [
  ...([['temperature'], ['top_p'], ['top_k'], ['frequency_penalty'], ['presence_penalty'], ['seed']] as const),
  ['max_tokens', 'max_completion_tokens', 'max_output_tokens'],
]

/** What was in force counts before what was asked. */
function paramsOf(body: Json, inForce: Readonly<Record<string, number>> = {}): Record<string, Attribute | undefined> {
  const params: Record<string, Attribute | undefined> = {}
  for (const names of PARAMS) {
    const value = inForce[names[0]] ?? names.map((name) => body[name]).find((asked) => typeof asked === 'number')
    if (typeof value === 'number') params[`gen_ai.request.${names[0]}`] = value
  }
  const stop = typeof body.stop === 'string' ? [body.stop] : Array.isArray(body.stop) ? body.stop.map(String) : []
  if (stop.length > 0) params['gen_ai.request.stop_sequences'] = stop
  if (typeof body.n === 'number' && body.n > 1) params['gen_ai.request.choice.count'] = body.n
  return params
}

function finishReasons(response: Json): string[] {
  const choices = Array.isArray(response.choices) ? response.choices.filter(isJson) : []
  if (choices.length > 0) return choices.map(({ finish_reason }) => String(finish_reason ?? 'stop'))
  const calls = Array.isArray(response.output) && response.output.some((item) => isJson(item) && item.type === 'function_call')
  return [response.status === 'incomplete' ? 'length' : calls ? 'tool_calls' : 'stop']
}

/** Every answer that was asked for, the first one first: readers go on with that. */
function answersIn(response: Json, first: Message | undefined): Message[] {
  const others = Array.isArray(response.choices) ? response.choices.slice(1) : []
  const completions = [first, ...others.map((choice) => readResponse({ choices: [choice] } as Value).completion)]
  return completions.filter((completion) => completion !== undefined)
}

function tokenAttributes(tokens: Tokens | undefined): Record<string, Attribute | undefined> {
  if (!tokens) return {}
  const { prompt, response, logprobs, source } = tokens
  return {
    prompt_token_ids: prompt.length > 0 ? JSON.stringify(prompt) : undefined,
    response_token_ids: response.length > 0 ? JSON.stringify(response) : undefined,
    'logprobs.content': logprobs.length > 0 ? JSON.stringify(logprobs) : undefined,
    'leyden.token_source': source === 'engine' ? source : undefined,
  }
}

const messagesText = (messages: readonly Message[]): string | undefined =>
  messages.length > 0 ? JSON.stringify(messages.map(({ role, parts, name }) => ({ role, parts: parts.map(writtenPart), name }))) : undefined

function writtenPart(part: Part): object {
  switch (part.kind) {
    case 'text':
    case 'reasoning':
      return { type: part.kind, content: part.text }
    case 'tool_call':
      return { type: 'tool_call', id: part.id, name: part.name, arguments: part.arguments }
    case 'tool_result':
      return { type: 'tool_call_response', id: part.id, response: part.text }
    case 'media':
      return { type: 'uri', mime_type: part.mime, uri: part.reference }
  }
}
