// A call as a span, in OpenTelemetry's GenAI conventions (dialects/genai.ts reads them) and with what only an endpoint knows: token
// ids, logprobs, the version that answered, and the rollout that the call was made for.

import type { Message, Part, Tokens } from '../data/dialect.ts'
import { readRequest, readResponse } from '../data/provider_body.ts'
import type { Value } from '../data/span.ts'
import type { Said } from './engines/engine.ts'
import type { ApiError } from './errors.ts'
import { isJson, type Json } from './fields.ts'
import type { Origin } from './origin.ts'
import type { SpanWriter, WriteAttribute } from './span_bytes.ts'

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

/** Adds its span to those that wait to be sent. */
export function addCall(spans: SpanWriter, record: CallRecord): void {
  const { trace_id, span_id, parent_span_id, origin, operation, said, error, started_at, ended_at } = record
  const body = said.body ?? record.body ?? {}
  const model = typeof body.model === 'string' ? body.model : undefined
  const response = error ? undefined : said.response?.()
  const read = response ? readResponse(response as Value) : {}
  const server = said.server ?? record.server
  // Not by a spread: what is added to one makes a hidden class of its own each time, half a kilobyte that lasts until all garbage is collected.
  const head = {
    trace_id,
    span_id,
    parent_span_id,
    name: model === undefined ? operation : `${operation} ${model}`,
    kind: said.server ? CLIENT : SERVER,
    started_at,
    ended_at,
    error: error?.message,
  }
  spans.add(head, (attribute) => {
    for (const key in origin.attributes) attribute(key, origin.attributes[key])
    attribute('gen_ai.operation.name', operation)
    attribute('gen_ai.provider.name', said.server ? 'openai' : 'leyden')
    attribute('gen_ai.request.model', model)
    writeParams(attribute, body, said.params)
    attribute('gen_ai.response.id', read.response_id)
    attribute('gen_ai.response.model', read.response_model)
    attribute('gen_ai.response.finish_reasons', response && finishReasons(response))
    attribute('gen_ai.usage.input_tokens', read.usage?.input)
    attribute('gen_ai.usage.output_tokens', read.usage?.output)
    attribute('gen_ai.input.messages', messagesText(readRequest(body as Value)))
    attribute('gen_ai.output.messages', response && messagesText(answersIn(response, read.completion)))
    attribute('gen_ai.tool.definitions', Array.isArray(body.tools) && body.tools.length > 0 ? JSON.stringify(body.tools) : undefined)
    writeTokens(attribute, error ? undefined : (said.tokens ?? read.tokens))
    attribute('leyden.policy.version', said.policy_version)
    const { first_token_at } = said
    attribute('gen_ai.response.time_to_first_chunk', first_token_at === undefined ? undefined : (first_token_at - started_at) / 1_000)
    attribute('server.address', server.host)
    attribute('server.port', server.port)
    attribute('error.type', error && (error.code ?? String(error.status)))
    attribute('http.response.status_code', error?.status)
  })
}

/** By its name in the convention, those that a request may give it. */
const PARAMS: readonly (readonly [string, ...string[]])[] = [
  ...([['temperature'], ['top_p'], ['top_k'], ['frequency_penalty'], ['presence_penalty'], ['seed']] as const),
  ['max_tokens', 'max_completion_tokens', 'max_output_tokens'],
]

/** What was in force counts before what was asked. */
function writeParams(attribute: WriteAttribute, body: Json, inForce: Readonly<Record<string, number>> = {}): void {
  for (const names of PARAMS) {
    const value = inForce[names[0]] ?? names.map((name) => body[name]).find((asked) => typeof asked === 'number')
    if (typeof value === 'number') attribute(`gen_ai.request.${names[0]}`, value)
  }
  const stop = typeof body.stop === 'string' ? [body.stop] : Array.isArray(body.stop) ? body.stop.map(String) : []
  if (stop.length > 0) attribute('gen_ai.request.stop_sequences', stop)
  if (typeof body.n === 'number' && body.n > 1) attribute('gen_ai.request.choice.count', body.n)
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

function writeTokens(attribute: WriteAttribute, tokens: Tokens | undefined): void {
  if (!tokens) return
  const { prompt, response, logprobs, source } = tokens
  if (prompt.length > 0) attribute('prompt_token_ids', JSON.stringify(prompt))
  if (response.length > 0) attribute('response_token_ids', JSON.stringify(response))
  if (logprobs.length > 0) attribute('logprobs.content', JSON.stringify(logprobs))
  if (source === 'engine') attribute('leyden.token_source', source)
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
