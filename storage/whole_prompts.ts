// Prompts of stored transitions, put together again: a row has what is new since the step that it extends (transition_rows.ts). The view
// `transitions_full` says the same in SQL, for whoever reads with a client of their own; it makes each prompt of all that came before,
// where this goes on from the last one.

/** Columns of `transitions`. */
export interface StoredTurn {
  readonly step: number
  readonly parent_step: number
  /** JSON; what follows the completion of the parent. */
  readonly prompt_messages: string
  readonly completion: string
  /** How many tokens of the parent's prompt and response come first. */
  readonly prefix_length: number
  readonly prompt_token_ids: readonly number[]
  readonly response_token_ids: readonly number[]
}

export type Prompt = Pick<StoredTurn, 'prompt_messages' | 'prompt_token_ids'>

/** Up to the last turn and with its prompt, and its answer. */
interface Chain {
  /** JSON without the brackets, as is the answer. */
  readonly messages: string
  readonly completion: string
  readonly prompt: readonly number[]
  readonly response: readonly number[]
}

const NOTHING: Chain = { messages: '', completion: '', prompt: [], response: [] }

/** @returns what gives the whole prompt of each turn of one rollout: of all of them, in the order of their steps */
export function openPrompts(): (turn: StoredTurn) => Prompt {
  /** By the step that they begin with: chains do not branch. */
  const chains = new Map<number, Chain>()
  const beginnings = new Map<number, number>()

  return (turn) => {
    const beginning = turn.parent_step < 0 ? turn.step : (beginnings.get(turn.parent_step) ?? turn.parent_step)
    beginnings.set(turn.step, beginning)
    const before = chains.get(beginning) ?? NOTHING
    const messages = listed(listed(before.messages, before.completion), turn.prompt_messages.slice(1, -1))
    const prompt = [...firstTokens(before, turn.prefix_length), ...turn.prompt_token_ids]
    chains.set(beginning, { messages, completion: turn.completion, prompt, response: turn.response_token_ids })
    return { prompt_messages: `[${messages}]`, prompt_token_ids: prompt }
  }
}

const listed = (some: string, more: string): string => (some && more ? `${some},${more}` : some || more)

const firstTokens = ({ prompt, response }: Chain, count: number): readonly number[] =>
  count <= prompt.length ? prompt.slice(0, count) : [...prompt, ...response.slice(0, count - prompt.length)]
