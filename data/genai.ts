// What the gen_ai.* attributes and events say, in all their versions. Spans, log records and the
// families that took these names over (OpenLLMetry, AgentOps) are read with it.

import type { CallReading, Flag, Message, Tokens, Usage } from './dialect.ts'
import { joinMessages, readMessage, readMessages, withSystem } from './messages.ts'
import { readLogprobs, tokensOf } from './provider_body.ts'
import { remembered } from './remembered.ts'
import type { Attributes, Value } from './span.ts'
import { decode, decodeMessages, first, listOf, numberOf, numbersOf, recordOf, sessionOf, textOf } from './values.ts'

const FINISH_REASONS = ['gen_ai.response.finish_reasons', 'gen_ai.response.finish_reason']

/** LiteLLM writes its own call types where an operation belongs. */
const INFERENCE: Readonly<Record<string, string>> = {
  chat: 'chat',
  completion: 'chat',
  acompletion: 'chat',
  generate_content: 'generate_content',
  text_completion: 'text_completion',
  atext_completion: 'text_completion',
}

/** An operation of a model as it is named here; undefined for any other. */
export const inferenceOf = (operation: string): string | undefined =>
  Object.hasOwn(INFERENCE, operation) ? INFERENCE[operation] : undefined

/** What the reader of a span found elsewhere; the rest is in the attributes. */
type Said = Pick<CallReading, 'operation' | 'prompt' | 'completion' | 'tools' | 'finish' | 'tokens' | 'flags'>

/** A call, from the attributes that all families share and from what the caller found. `finish` of the caller comes second. */
export function callOf(attributes: Attributes, { operation, prompt, completion, tools, finish, tokens, flags }: Said): CallReading {
  return {
    kind: 'call',
    operation,
    request_model: textOf(attributes['gen_ai.request.model']),
    response_model: textOf(attributes['gen_ai.response.model']),
    response_id: textOf(attributes['gen_ai.response.id']),
    endpoint: endpointOf(attributes),
    prompt,
    completion,
    tools,
    params: paramsOf(attributes),
    finish: finishOf(first(attributes, FINISH_REASONS)) ?? finish,
    usage: usageOf(attributes),
    tokens: tokenAttributes(attributes) ?? tokens,
    policy_version: numberOf(attributes['leyden.policy.version']),
    agent: textOf(attributes['gen_ai.agent.name']),
    session: sessionOf(attributes),
    flags,
  }
}

/** agent-lightning's patch of AgentOps, and Leyden's own endpoint, which says where its own decoder drew them. */
const tokenAttributes = (attributes: Attributes): Tokens | undefined =>
  attributes.prompt_token_ids === undefined && attributes.response_token_ids === undefined && attributes['logprobs.content'] === undefined
    ? undefined
    : tokensOf(
        numbersOf(attributes.prompt_token_ids),
        numbersOf(attributes.response_token_ids),
        readLogprobs(decode(attributes['logprobs.content']).value),
        attributes['leyden.token_source'] === 'engine' ? 'engine' : 'attribute',
      )

export type Content = Pick<CallReading, 'prompt' | 'completion' | 'finish' | 'tools'> & { readonly flags: readonly Flag[] }

/** The messages of gen_ai.input.messages and its siblings, structured or as JSON text. */
export function contentOf(attributes: Attributes): Content {
  const flags: Flag[] = []
  const read = (key: string): Value | undefined => {
    const { value, truncated } = decodeMessages(attributes[key])
    if (truncated && !flags.includes('truncated')) flags.push('truncated')
    return value
  }
  const prompt = withSystem(read('gen_ai.system_instructions'), readMessages(read('gen_ai.input.messages')))
  const output = read('gen_ai.output.messages')
  const tools = listOf(read('gen_ai.tool.definitions'))
  if (attributes['gen_ai.request.previous_response.id'] || attributes['gen_ai.conversation.compacted'] === true)
    flags.push('historyIncomplete')
  return {
    prompt,
    completion: joinMessages(readMessages(answers(output, numberOf(attributes['gen_ai.request.choice.count'])))),
    finish: textOf(recordOf(Array.isArray(output) ? output[0] : output)?.finish_reason),
    tools: tools.length > 0 ? tools : undefined,
    flags,
  }
}

/** Several output messages are the parts of one answer, unless several answers were asked for: then the first counts. */
const answers = (output: Value | undefined, asked = 1): Value | undefined => (Array.isArray(output) && asked > 1 ? output[0] : output)

export interface EventReading {
  readonly messages?: readonly Message[]
  readonly completion?: Message | undefined
  readonly finish?: string | undefined
}

const MESSAGE_EVENTS: Readonly<Record<string, Message['role']>> = {
  'gen_ai.system.message': 'system',
  'gen_ai.user.message': 'user',
  'gen_ai.assistant.message': 'assistant',
  'gen_ai.tool.message': 'tool',
}

export const isMessageEvent = (name: string): boolean => name === 'gen_ai.choice' || Object.hasOwn(MESSAGE_EVENTS, name)

/** Conventions up to 1.36: one event per message. The body is a record, or its JSON (Semantic Kernel). */
export function readMessageEvent(name: string, body: Value): EventReading {
  const event = recordOf(decode(body).value) ?? {}
  if (name !== 'gen_ai.choice') return { messages: readMessage({ role: MESSAGE_EVENTS[name]!, ...event }, MESSAGE_EVENTS[name]) }
  // The first of several choices is the one that the agent went on with.
  if ((numberOf(event.index) ?? 0) > 0) return {}
  const message = recordOf(event.message) ?? { content: event.message ?? null }
  return {
    completion: joinMessages(readMessage({ role: 'assistant', ...message })),
    finish: textOf(event.finish_reason),
  }
}

/** A list, a list as JSON, or a comma list; of several the first. */
export function finishOf(value: Value | undefined): string | undefined {
  const decoded = decode(value).value
  if (Array.isArray(decoded)) return textOf(decoded[0])
  return textOf(decoded)?.split(',')[0]!.trim()
}

export function usageOf(attributes: Attributes): Usage | undefined {
  const input = numberOf(first(attributes, INPUT_TOKENS))
  const output = numberOf(first(attributes, OUTPUT_TOKENS))
  if (input === undefined && output === undefined) return undefined
  return { input, output, cache_read: numberOf(first(attributes, CACHED_TOKENS)), reasoning: numberOf(first(attributes, REASONING_TOKENS)) }
}

const INPUT_TOKENS = ['gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens']
const OUTPUT_TOKENS = ['gen_ai.usage.output_tokens', 'gen_ai.usage.completion_tokens']
const CACHED_TOKENS = ['gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.cache_read_input_tokens']
const REASONING_TOKENS = ['gen_ai.usage.reasoning.output_tokens', 'llm.usage.reasoning_tokens']

/** `host:port`. Some write a whole URL as the address, and OpenLLMetry the API's base. */
function endpointOf(attributes: Attributes): string | undefined {
  const address = textOf(first(attributes, ADDRESSES))
  if (address === undefined) return undefined
  const host = address.includes('://') ? hostOf(address) : ''
  if (host !== '') return host
  const port = numberOf(attributes['server.port'])
  return port === undefined ? address : `${address}:${port}`
}

const ADDRESSES = ['server.address', 'gen_ai.openai.api_base']

/** Of a URL; '' where it is none. */
const hostOf = remembered((address: string) => (URL.canParse(address) ? new URL(address).host : ''))

const PARAMS = ['temperature', 'top_p', 'top_k', 'max_tokens', 'frequency_penalty', 'presence_penalty', 'seed', 'stop_sequences'].map(
  (name) => [name, `gen_ai.request.${name}`] as const,
)

function paramsOf(attributes: Attributes): Record<string, Value> | undefined {
  let given: Record<string, Value> | undefined
  for (const [name, key] of PARAMS) {
    const value = attributes[key]
    if (value !== undefined) (given ??= {})[name] = value
  }
  return given
}
