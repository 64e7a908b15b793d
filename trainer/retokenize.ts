// Token ids for turns that carry none, made from their text with the policy's own chat template. What was sampled may have been other
// tokens of the same text, so this is only done where it is asked for, and such turns get no importance weights.

import type { Message, Part } from '../data/dialect.ts'
import type { ChatMessage } from '../policy/chat_template.ts'
import { openTokenizer } from '../policy/tokenizer.ts'
import type { TrainingTransition } from '../storage/training.ts'

export type Retokenize = (turn: TrainingTransition) => TrainingTransition

/** Turns that cannot be rendered, or whose answer does not stand behind their prompt, stay as they are and are refused. */
export async function retokenizer(base: string): Promise<Retokenize> {
  const tokenizer = await openTokenizer(base)
  return (turn) => {
    if (turn.completion === '') return turn
    try {
      const prompt = (JSON.parse(turn.prompt_messages) as Message[]).map(chatMessage)
      const answer = chatMessage(JSON.parse(turn.completion) as Message)
      const tools = JSON.parse(turn.tools) as unknown[]
      const before = tokenizer.chat(prompt, { tools, add_generation_prompt: true }).ids
      const whole = tokenizer.chat([...prompt, answer], { tools, add_generation_prompt: false }).ids
      if (!before.every((id, i) => whole[i] === id)) return turn
      const response = upToEnd(whole.slice(before.length), tokenizer.eos_ids)
      return { ...turn, prompt_token_ids: before, response_token_ids: response, response_logprobs: [], token_source: 'retokenized' }
    } catch {
      return turn
    }
  }
}

/** Templates write a line break after the token that ends an answer; the policy never does. */
function upToEnd(ids: readonly number[], ends: readonly number[]): readonly number[] {
  const end = ids.findIndex((id) => ends.includes(id))
  return end < 0 ? ids : ids.slice(0, end + 1)
}

function chatMessage({ role, parts, name }: Message): ChatMessage {
  const text = parts.flatMap((part) => (part.kind === 'text' || part.kind === 'tool_result' ? part.text : [])).join('')
  const calls = parts.filter((part): part is Extract<Part, { kind: 'tool_call' }> => part.kind === 'tool_call')
  const answers = parts.find((part) => part.kind === 'tool_result')?.id
  return {
    role,
    content: text,
    ...(name === undefined ? {} : { name }),
    ...(answers === undefined ? {} : { tool_call_id: answers }),
    ...(calls.length > 0 ? { tool_calls: calls.map(toolCall) } : {}),
  }
}

const toolCall = ({ id, name, arguments: given }: Extract<Part, { kind: 'tool_call' }>) => ({
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { name, arguments: parsed(given) },
})

/** Templates print arguments as JSON themselves. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
