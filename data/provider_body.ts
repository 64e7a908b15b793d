// The provider's own request and response, which some instrumentations store whole. They know more
// than any attribute: the response id, and the token ids and logprobs of engines that return them.

import type { CallReading, Message, Tokens, Usage } from './dialect.ts'
import { joinMessages, readMessages, withSystem } from './messages.ts'
import type { Value } from './span.ts'
import { first, listOf, numberOf, numbersOf, recordOf, textOf, type ValueRecord } from './values.ts'

export type Body = Partial<Pick<CallReading, 'response_id' | 'response_model' | 'completion' | 'finish' | 'usage' | 'tokens'>>

/** Reads an OpenAI chat completion or Responses body, an Anthropic message, a Gemini response, or LangChain generations. */
export function readResponse(value: Value | undefined): Body {
  const body = recordOf(Array.isArray(value) ? value[0] : value)
  if (!body) return {}
  if (Array.isArray(body.generations)) return readGenerations(body)
  const choice = recordOf(listOf(body.choices ?? body.candidates)[0])
  const completion = choice ? readChoice(choice) : joinMessages(readMessages(body.output ?? single(body)))
  const model = body.model ?? body.model_version ?? body.modelVersion
  // A bare message or output item has an id too, but it is not the response's.
  const whole = choice !== undefined || body.output !== undefined || model !== undefined
  return {
    response_id: whole ? textOf(body.id ?? body.response_id ?? body.responseId) : undefined,
    response_model: textOf(model),
    completion,
    finish: textOf(choice?.finish_reason ?? choice?.finishReason ?? body.stop_reason ?? body.finish_reason ?? body.finishReason),
    usage: readUsage(recordOf(body.usage ?? body.usage_metadata ?? body.usageMetadata)),
    tokens: readTokens(body, choice),
  }
}

/** A response, or what some recorders leave of one: its messages or its text. */
export function readAnswer(value: Value | undefined): Body {
  const body = readResponse(value)
  return body.completion && !Array.isArray(value) ? body : { ...body, completion: joinMessages(readMessages(value)) ?? body.completion }
}

/** The messages of a request, with the system's in front where they are kept apart. A bare list is its messages. */
export function readRequest(value: Value | undefined): readonly Message[] {
  const request = recordOf(value)
  if (!request) return readMessages(value)
  const config = recordOf(request.config)
  return withSystem(
    request.system ?? request.instructions ?? config?.system_instruction ?? config?.systemInstruction,
    readMessages(request.messages ?? request.input ?? request.contents ?? request.prompt),
  )
}

/** `{"content": [{"logprob": -0.1, …}]}`, or the list alone; in that, null (NaN) is of a token that was forced on the policy. */
export const readLogprobs = (value: Value | undefined): number[] =>
  listOf(recordOf(value)?.content ?? value)
    .map((entry) => (entry === null ? NaN : numberOf(recordOf(entry)?.logprob ?? entry)))
    .filter((n) => n !== undefined)

export function readUsage(usage: ValueRecord | undefined): Usage | undefined {
  if (!usage) return undefined
  const read: Usage = {
    input: numberOf(first(usage, INPUT_TOKENS)),
    output: numberOf(first(usage, OUTPUT_TOKENS)),
    cache_read: numberOf((recordOf(usage.prompt_tokens_details) ?? recordOf(usage.input_tokens_details))?.cached_tokens),
    reasoning: numberOf((recordOf(usage.completion_tokens_details) ?? recordOf(usage.output_tokens_details))?.reasoning_tokens),
  }
  return Object.values(read).some((n) => n !== undefined) ? read : undefined
}

const INPUT_TOKENS = ['prompt_tokens', 'input_tokens', 'promptTokens', 'inputTokens', 'prompt_token_count', 'promptTokenCount', 'input']
const OUTPUT_TOKENS = [
  ...['completion_tokens', 'output_tokens', 'completionTokens', 'outputTokens'],
  ...['candidates_token_count', 'candidatesTokenCount', 'output'],
]

/** Anthropic's body is the message itself, Gemini's newer one holds it as `content`. */
const single = (body: ValueRecord): Value | undefined => (body.role === 'assistant' ? body : recordOf(body.content))

function readChoice(choice: ValueRecord): Message | undefined {
  if (typeof choice.text === 'string') return { role: 'assistant', parts: [{ kind: 'text', text: choice.text }] }
  return joinMessages(readMessages(choice.message ?? choice.content))
}

/** vLLM returns prompt_token_ids on the body (or on the choice, for completions) and token_ids on the choice. */
function readTokens(body: ValueRecord, choice: ValueRecord | undefined): Tokens | undefined {
  const perChoice = listOf(body.response_token_ids)
  return tokensOf(
    numbersOf(body.prompt_token_ids ?? choice?.prompt_token_ids),
    numbersOf(choice?.token_ids ?? (Array.isArray(perChoice[0]) ? perChoice[0] : perChoice)),
    readLogprobs(choice?.logprobs),
    'raw_body',
  )
}

export const tokensOf = (prompt: number[], response: number[], logprobs: number[], source: Tokens['source']): Tokens | undefined =>
  prompt.length + response.length + logprobs.length > 0 ? { prompt, response, logprobs, source } : undefined

/** LangChain's LLMResult: its first generation is the answer. Python writes generation_info, JavaScript generationInfo. */
function readGenerations(result: ValueRecord): Body {
  const generation = recordOf(listOf(result.generations).flat()[0])
  if (!generation) return {}
  const info = recordOf(generation.generation_info ?? generation.generationInfo)
  const message = recordOf(generation.message)
  const kwargs = recordOf(message?.kwargs) ?? recordOf(message?.data) ?? message
  const metadata = recordOf(kwargs?.response_metadata)
  const output = recordOf(result.llm_output ?? result.llmOutput)
  const text = textOf(generation.text)
  return {
    response_id: providerId(output?.id ?? metadata?.id ?? kwargs?.id),
    response_model: textOf(metadata?.model_name ?? output?.model_name),
    completion: message
      ? joinMessages(readMessages([message]))
      : text === undefined
        ? undefined
        : { role: 'assistant', parts: [{ kind: 'text', text }] },
    finish: textOf(info?.finish_reason ?? metadata?.finish_reason ?? metadata?.stop_reason),
    usage: readUsage(recordOf(kwargs?.usage_metadata) ?? recordOf(output?.token_usage ?? output?.tokenUsage)),
    tokens: tokensOf([], [], readLogprobs(info?.logprobs ?? metadata?.logprobs), 'raw_body'),
  }
}

/** LangChain gives messages ids of its own, `run--…`, where the provider sent none. */
function providerId(value: Value | undefined): string | undefined {
  const id = textOf(value)
  return id?.startsWith('run-') || id?.startsWith('lc_run-') ? undefined : id
}
