// What an endpoint asks of a decoder: token ids in, sampled tokens out, weights replaced in between. The contract only.

import type { Schema } from './json_schema.ts'

/** What the whole text of an answer has to be: one of `texts`, or up to `most` of `several` one after the other. Each is in parts, between which there may be blanks. */
export interface Form {
  readonly texts: readonly (readonly FormPart[])[]
  readonly several: readonly (readonly FormPart[])[]
  readonly most: number
}
/** As it stands, or JSON of a schema. `exact`: all that the schema says must be held to; otherwise what cannot be is left to the policy. */
export type FormPart = string | { readonly schema: Schema; readonly exact: boolean }

/** How tokens are drawn. Applied in this order: form, temperature, top_k, top_p, renormalised. */
export interface Sampling {
  /** 0: the likeliest token, always. */
  readonly temperature: number
  /** 1: no limit. */
  readonly top_p: number
  /** 0: no limit. */
  readonly top_k: number
  readonly max_tokens: number
  /** Texts that end the answer and are not part of it. */
  readonly stop: readonly string[]
  /** The same seed, prompt, version and sampling give the same tokens, whatever is decoded beside them. */
  readonly seed: number
  /** How many of the likeliest tokens to report at each place. */
  readonly top_logprobs: number
  /** Tokens that do not fit are never drawn. */
  readonly form?: Form | undefined
}

/** One drawn token. */
export interface SampledToken {
  readonly id: number
  /** What it adds to the text; '' while it only holds a part of a character, or what may be the beginning of a stop text. */
  readonly text: string
  /** Of the distribution that it was really drawn from (after temperature, top_k and top_p). At temperature 0: of the softmax at temperature 1. */
  readonly logprob: number
  readonly top: readonly { readonly id: number; readonly text: string; readonly logprob: number }[]
  /** True where the form took more than FREE of the distribution away: then it is no sample of the policy's own. */
  readonly forced?: boolean
}

/** As much as rounding makes in a ratio of probabilities. */
export const FREE = 1e-4

export interface Generation {
  readonly text: string
  /** All drawn tokens, the one that ended it included. */
  readonly token_ids: readonly number[]
  /** One per drawn token. */
  readonly logprobs: readonly number[]
  readonly finish_reason: 'stop' | 'length'
  /** The version that drew every one of them. */
  readonly version: number
  /** Tokens of the prompt that an earlier prompt and answer had left in the cache. */
  readonly cached_tokens: number
}

/** As many answers wait as may wait. */
export class DecoderBusy extends Error {
  constructor(outstanding: number) {
    super(`the decoder is busy: ${outstanding} answers are being decoded or wait`)
  }
}

/** The tokens of the policy cannot write what the form wants next. */
export class FormFailed extends Error {}

export interface DecoderState {
  readonly loaded: readonly number[]
  readonly live: number | null
  readonly running: number
  readonly waiting: number
  /** How often its thread has died and was started again. */
  readonly restarts: number
  /** For a person: what multiplies its matrices. */
  readonly backend: string
}

export interface Decoder {
  /**
   * Draws one answer. Rejects with a plain Error when the prompt is empty, longer than the context, or names an id outside of the
   * vocabulary, with DecoderBusy when too many wait, and with the signal's reason when `abort` fires (the place in the batch is free at once).
   * `version`: a loaded one; the live one where left out. An answer ends on the version that it began with.
   */
  generate(
    prompt: readonly number[],
    sampling: Sampling,
    each: (token: SampledToken) => void,
    abort: AbortSignal,
    version?: number,
  ): Promise<Generation>
  /** Reads a checkpoint folder (a Hugging Face model, or a LoRA adapter beside its base) and holds it. Rejects, naming file and tensor, when it cannot be loaded; what was live stays. */
  load(version: number, folder: string): Promise<void>
  /** Makes a loaded version the live one, between two steps. */
  promote(version: number): void
  /** Frees a version once nothing runs on it. Throws for the live one. */
  release(version: number): void
  /** For health, metrics and `leyden policies`. */
  state(): DecoderState
  close(): Promise<void>
}
