// What answers the requests for one model.

import type { Tokens } from '../../data/dialect.ts'
import type { Header } from '../../pipeline/auth.ts'
import type { HttpResponse } from '../../pipeline/http_exchange.ts'
import type { Api } from '../api.ts'
import type { Ending } from '../ending.ts'
import type { Json } from '../fields.ts'

/** The header of every answer that says which request it answers. */
export const REQUEST_ID = 'x-request-id'

export interface Engine {
  /** What keeps it from answering now; null: nothing. */
  problem(): string | null
  /**
   * Writes the whole response. Rejects with ApiError where it cannot; if the response has not begun by then, the caller answers. What
   * it has learnt by then for the record is in `said`.
   */
  answer(call: EngineCall, said: Said): Promise<void>
  start?(): Promise<void>
  close?(): Promise<void>
}

/** A request on its way to an engine. */
export interface EngineCall {
  readonly api: Api
  /** Of the answer, in the API's form. */
  readonly id: string
  /** To be written as REQUEST_ID, unless who answers has one. */
  readonly request_id: string
  /** Name of the model as it was asked for, and the version that `name@7` pins. */
  readonly model: string
  readonly version: number | undefined
  readonly body: Json
  readonly bytes: Buffer
  readonly header: Header
  /** Of the span that will record the call: what is below it may say so. */
  readonly traceparent: string
  readonly response: HttpResponse
  readonly ending: Ending
}

/** What an engine tells of a call while it answers. */
export interface Said {
  /** The request, where it refers to more than it holds. */
  body?: Json
  /** The whole answer, or a promise of it where it takes work to put it together: that can wait until the client has it. */
  response?: () => Json | undefined
  /** Where the response does not hold them, or holds others. */
  tokens?: Tokens
  /** Sampling parameters that were in force, where they are more than what was asked. */
  params?: Readonly<Record<string, number>>
  policy_version?: number
  /** Host and port that answered, where that is not the endpoint itself. */
  server?: { readonly host: string; readonly port: number }
  /** Milliseconds since the epoch, when the first token went out. */
  first_token_at?: number
}
