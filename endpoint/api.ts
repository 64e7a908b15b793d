// What lies between OpenAI's APIs and the engines: a request in one form, whichever of the APIs it came by, and an answer in pieces.

import type { SampledToken } from '../policy/decoding.ts'
import type { Schema } from '../policy/json_schema.ts'
import type { Json } from './fields.ts'

/** A message as chat templates take it. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string
  readonly tool_calls?: readonly ToolCall[]
  /** Of a tool's answer. */
  readonly tool_call_id?: string
  readonly name?: string
}

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON text, as the model wrote it. */
  readonly arguments: string
}

/** A function that the model may call, as OpenAI's chat API writes it. */
export interface Tool {
  readonly type: 'function'
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: Json }
  /** Where a call is forced: whether its arguments must be held to all that `parameters` says. */
  readonly strict: boolean
  /** The member of the request that has it. */
  readonly at: string
}

/** `required`: some function; an object: that one. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string }

export type Prompt =
  | {
      readonly kind: 'chat'
      readonly messages: readonly ChatMessage[]
      readonly tools: readonly Tool[]
      readonly tool_choice: ToolChoice
      readonly parallel_tool_calls: boolean
    }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'tokens'; readonly ids: readonly number[] }

/** A request, whichever API it came by. */
export interface Ask {
  /** As it came, and with what it refers to. */
  readonly body: Json
  readonly prompt: Prompt
  /** As given; what is left out is the engine's to choose. */
  readonly temperature: number | undefined
  readonly top_p: number | undefined
  readonly top_k: number | undefined
  readonly max_tokens: number | undefined
  readonly seed: number | undefined
  readonly stop: readonly string[]
  /** How many answers. */
  readonly n: number
  readonly stream: boolean
  readonly include_usage: boolean
  /** How many of the likeliest tokens to tell at each place; null: no logprobs at all. */
  readonly logprobs: number | null
  readonly return_token_ids: boolean
  /** What the answer must be JSON of; null: any text. `at`: the member of the request that says so. */
  readonly format: { readonly schema: Schema; readonly at: string } | null
}

/** What one step adds to an answer. */
export interface Piece {
  readonly text: string
  /** Tool calls that begin or go on: the first piece of one has its id and name. */
  readonly tool_calls: readonly ToolCallPiece[]
  /** Tokens drawn since the last piece. */
  readonly tokens: readonly SampledToken[]
}

export interface ToolCallPiece {
  readonly index: number
  readonly id?: string
  readonly name?: string
  readonly arguments: string
}

export interface Answer {
  readonly text: string
  readonly tool_calls: readonly ToolCall[]
  readonly finish_reason: 'stop' | 'length' | 'tool_calls'
  /** Everything that was drawn, in order. */
  readonly tokens: readonly SampledToken[]
}

/** What an answer says of itself. */
export interface Head {
  readonly id: string
  /** Seconds since the Unix epoch. */
  readonly created: number
  readonly model: string
  /** Says which version answered: `policy@7`. */
  readonly fingerprint: string | null
  readonly prompt_token_ids: readonly number[]
}

/** Writes one event of a stream; `name` where the API names its events. */
export type Emit = (data: Json, name?: string) => void

/** Answers as events. */
export interface Events {
  piece(choice: number, piece: Piece): void
  /** One of the answers is whole. */
  end(choice: number, answer: Answer): void
  /** All are. */
  close(answers: readonly Answer[]): void
}

/** One of OpenAI's APIs. */
export interface Api {
  /** Below the base URL. */
  readonly path: string
  /** As spans name it. */
  readonly operation: 'chat' | 'text_completion'
  /** Beginning of the ids of its answers. */
  readonly id_prefix: string
  /** What ends a stream, after its last event. */
  readonly terminator: string
  /** The request with what it refers to in its place. */
  resolve?(body: Json): Json
  /** Throws ApiError, naming the member that is at fault. */
  read(body: Json): Ask
  /** The answers as one body. */
  whole(head: Head, ask: Ask, answers: readonly Answer[]): Json
  events(head: Head, ask: Ask, emit: Emit): Events
  /** What later requests may refer to. */
  remember?(head: Head, ask: Ask, answers: readonly Answer[]): void
  /** The body that these events are the parts of; undefined where they are none. */
  join(events: readonly Json[]): Json | undefined
}

export const usageOf = ({ prompt_token_ids }: Head, answers: readonly Answer[]) => {
  const prompt_tokens = prompt_token_ids.length
  const completion_tokens = answers.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}
