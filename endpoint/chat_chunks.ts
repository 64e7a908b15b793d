// The chunks of a streamed answer as the body that would have come without a stream: what a call is recorded from.

import { isJson, type Json } from './fields.ts'

interface Choice {
  content: string
  reasoning: string
  readonly tool_calls: Map<number, { id: string; name: string; arguments: string }>
  readonly token_ids: unknown[]
  readonly logprobs: unknown[]
  finish_reason: unknown
}

/** Fields that other servers add are left out; vLLM's token ids are kept. */
export function joinChat(chunks: readonly Json[]): Json | undefined {
  const first = chunks.find(({ choices }) => Array.isArray(choices))
  if (!first) return undefined
  const choices = new Map<number, Choice>()
  for (const chunk of chunks) for (const choice of records(chunk.choices)) add(choices, choice)
  const last = (name: string) => chunks.findLast((chunk) => chunk[name] !== undefined && chunk[name] !== null)?.[name]
  return {
    ...{ id: first.id, created: first.created, model: first.model, usage: last('usage'), prompt_token_ids: last('prompt_token_ids') },
    choices: [...choices].sort(([a], [b]) => a - b).map(([index, choice]) => written(index, choice)),
  }
}

function add(choices: Map<number, Choice>, chunk: Json): void {
  const index = Number(chunk.index ?? 0)
  let choice = choices.get(index)
  if (!choice) {
    choice = { content: '', reasoning: '', tool_calls: new Map(), token_ids: [], logprobs: [], finish_reason: null }
    choices.set(index, choice)
  }
  const delta = isJson(chunk.delta) ? chunk.delta : {}
  if (typeof delta.content === 'string') choice.content += delta.content
  const reasoning = delta.reasoning_content ?? delta.reasoning
  if (typeof reasoning === 'string') choice.reasoning += reasoning
  for (const call of records(delta.tool_calls)) addCall(choice.tool_calls, call)
  if (Array.isArray(chunk.token_ids)) choice.token_ids.push(...(chunk.token_ids as unknown[]))
  if (isJson(chunk.logprobs)) choice.logprobs.push(...records(chunk.logprobs.content))
  choice.finish_reason = chunk.finish_reason ?? choice.finish_reason
}

function addCall(calls: Choice['tool_calls'], piece: Json): void {
  const index = Number(piece.index ?? calls.size)
  const call = calls.get(index) ?? { id: '', name: '', arguments: '' }
  calls.set(index, call)
  const fn = isJson(piece.function) ? piece.function : {}
  if (typeof piece.id === 'string') call.id = piece.id
  if (typeof fn.name === 'string') call.name += fn.name
  if (typeof fn.arguments === 'string') call.arguments += fn.arguments
}

function written(index: number, { content, reasoning, tool_calls, token_ids, logprobs, finish_reason }: Choice): Json {
  const calls = [...tool_calls.values()].map(({ id, name, arguments: args }) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  }))
  return {
    ...{ index, finish_reason },
    message: {
      role: 'assistant',
      content,
      ...(reasoning !== '' && { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
    ...(token_ids.length > 0 && { token_ids }),
    ...(logprobs.length > 0 && { logprobs: { content: logprobs } }),
  }
}

const records = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isJson) : [])
