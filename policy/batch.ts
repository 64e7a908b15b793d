// Continuous batching: each step reads one token of every answer under way, and what room is left goes to prompts. Answers join and leave between
// steps. Several versions may be loaded; an answer stays on the one that it began with. No threads and no clock here: who owns it calls `step`.

import { answerText, type AnswerText } from './answer_text.ts'
import { FormFailed, FREE, type SampledToken, type Sampling } from './decoding.ts'
import { openForms, type Held } from './form.ts'
import type { Forward, ForwardRow } from './forward.ts'
import type { KvCache, Sequence } from './kv_cache.ts'
import { drawToken, uniforms } from './sampling.ts'
import type { Tokenizer } from './tokenizer.ts'

/** A version, ready to read tokens. */
export interface LoadedModel {
  readonly forward: Forward
  readonly cache: KvCache
  readonly tokenizer: Tokenizer
  /** Most tokens of a prompt and its answer. */
  readonly context: number
  /** Most tokens read in one pass, at least `max_running`: the longer a pass, the longer the others wait for their next token. */
  readonly tokens_per_pass: number
}

export interface BatchOptions {
  /** Answers under way at once; others wait. */
  readonly max_running: number
}

export interface BatchRequest {
  readonly id: number
  readonly prompt: readonly number[]
  readonly sampling: Sampling
  /** Undefined: the one that is live when it begins. */
  readonly version: number | undefined
}

export type BatchEvent =
  | { readonly id: number; readonly kind: 'began'; readonly version: number; readonly cached_tokens: number }
  | { readonly id: number; readonly kind: 'token'; readonly token: SampledToken; readonly finish: 'stop' | 'length' | null }
  /** `form`: it is the form that cannot be held to. */
  | { readonly id: number; readonly kind: 'failed'; readonly problem: string; readonly form: boolean }

export interface Batch {
  load(version: number, model: LoadedModel): void
  promote(version: number): void
  /** Forgets the version when the last answer on it, and the last that waits for it, has ended. */
  release(version: number): void
  add(request: BatchRequest): void
  /** Ends a request without another event; its place and its blocks are free at once. */
  abort(id: number): void
  busy(): boolean
  step(): BatchEvent[]
}

interface Answer {
  readonly request: BatchRequest
  readonly version: number
  readonly model: LoadedModel
  readonly sequence: Sequence
  /** Tokens to read before the next can be drawn: what is left of the prompt, then the token drawn last. */
  unread: readonly number[]
  readonly uniform: () => number
  readonly text: AnswerText
  readonly held: Held | undefined
  /** How many more may be drawn. */
  left: number
}

export function openBatch({ max_running }: BatchOptions): Batch {
  const models = new Map<number, LoadedModel>()
  /** Given up, but in use. */
  const released = new Set<LoadedModel>()
  /** `pinned`: the version that was asked for, as it was then. */
  const waiting = new Map<number, { readonly request: BatchRequest; readonly pinned: LoadedModel | undefined }>()
  const running = new Map<number, Answer>()
  let live: number | undefined

  function forget(): void {
    if (released.size === 0) return
    const used = new Set([...[...running.values()].map(({ model }) => model), ...[...waiting.values()].map(({ pinned }) => pinned)])
    for (const model of released) {
      if (used.has(model)) continue
      released.delete(model)
      model.forward.close()
    }
  }

  function end(id: number): void {
    const answer = running.get(id)
    answer?.model.cache.close(answer.sequence)
    running.delete(id)
    waiting.delete(id)
    forget()
  }

  /** Begins what has waited longest, for as long as there is room; what comes later never overtakes. */
  function admit(): BatchEvent[] {
    const events: BatchEvent[] = []
    for (const { request, pinned } of waiting.values()) {
      if (running.size >= max_running) break
      const { id, prompt, sampling } = request
      try {
        const version = request.version ?? live
        const model = pinned ?? (version === undefined ? undefined : models.get(version))
        if (!model) throw new Error(version === undefined ? 'no version is live' : `version ${version} is not loaded`)
        const most = checkedLength(prompt, sampling, model)
        const sequence = model.cache.open(prompt, most)
        if (!sequence) break
        const held = sampling.form && formsOf(model.tokenizer)(sampling.form)
        const answer = {
          held,
          text: answerText(model.tokenizer, sampling.stop),
          uniform: uniforms(sampling.seed),
          left: most - prompt.length,
        }
        running.set(id, { request, version: version!, model, sequence, unread: prompt.slice(sequence.reused), ...answer })
        events.push({ id, kind: 'began', version: version!, cached_tokens: sequence.reused })
      } catch (error) {
        events.push(failed(id, error))
      }
      waiting.delete(id)
    }
    if (events.length > 0) forget()
    return events
  }

  /** One pass of one version: first the answers that wait for one token, then prompts, in pieces where they are long. */
  function advance(model: LoadedModel): BatchEvent[] {
    const answers = [...running.values()].filter((answer) => answer.model === model)
    const inOrder = [...answers.filter(({ unread }) => unread.length === 1), ...answers.filter(({ unread }) => unread.length > 1)]
    const rows: ForwardRow[] = []
    const complete: { readonly answer: Answer; readonly row: number }[] = []
    for (const answer of inOrder) {
      const { sequence } = answer
      const piece = answer.unread.slice(0, model.tokens_per_pass - rows.length)
      if (piece.length === 0) break
      model.cache.extend(sequence, piece.length)
      piece.forEach((token, i) => rows.push({ token, position: sequence.tokens.length + i, blocks: sequence.blocks }))
      model.cache.written(sequence, piece)
      answer.unread = answer.unread.slice(piece.length)
      if (answer.unread.length === 0) complete.push({ answer, row: rows.length - 1 })
    }
    if (rows.length === 0) return []
    const logits = model.forward.read(
      rows,
      complete.map(({ row }) => row),
    )
    return complete.map(({ answer }, i) => draw(answer, logits[i]!))
  }

  function draw(answer: Answer, logits: Float32Array): BatchEvent {
    const { request, model, text, held } = answer
    const { id, sampling } = request
    try {
      const drawn = drawToken(logits, sampling, answer.uniform(), held?.allowed())
      answer.left--
      const eos = model.tokenizer.eos_ids.includes(drawn.id)
      const { text: added, stopped } = eos ? { text: '', stopped: true } : text.push(drawn.id)
      if (!eos) held?.take(drawn.id)
      const finish = stopped || held?.ended() ? 'stop' : answer.left === 0 ? 'length' : null
      const rest = finish && !(stopped && !eos) ? text.end() : ''
      const top = drawn.top.map((token) => ({ ...token, text: model.tokenizer.decode([token.id]) }))
      const forced = drawn.share < 1 - FREE
      const token = { id: drawn.id, text: added + rest, logprob: drawn.logprob, top, ...(forced && { forced }) }
      answer.unread = [drawn.id]
      if (finish) end(id)
      return { id, kind: 'token', token, finish }
    } catch (error) {
      end(id)
      return failed(id, error)
    }
  }

  return {
    load: (version, model) => models.set(version, model),
    promote: (version) => (live = version),
    release(version) {
      const model = models.get(version)
      if (!model) return
      models.delete(version)
      released.add(model)
      forget()
    },
    add: (request) => waiting.set(request.id, { request, pinned: request.version === undefined ? undefined : models.get(request.version) }),
    abort: end,
    busy: () => waiting.size + running.size > 0,
    step() {
      const events = admit()
      for (const model of new Set([...running.values()].map(({ model }) => model))) events.push(...advance(model))
      return events
    },
  }
}

const failed = (id: number, error: unknown): BatchEvent => ({
  ...{ id, kind: 'failed', problem: (error as Error).message, form: error instanceof FormFailed },
})

/** The versions of a policy share their tokenizer, and so what was made of forms for it. */
const opened = new WeakMap<Tokenizer, ReturnType<typeof openForms>>()

function formsOf(tokenizer: Tokenizer): ReturnType<typeof openForms> {
  let forms = opened.get(tokenizer)
  if (!forms) opened.set(tokenizer, (forms = openForms(tokenizer)))
  return forms
}

/** Tokens of prompt and answer at most. */
function checkedLength(prompt: readonly number[], sampling: Sampling, { context, forward }: LoadedModel): number {
  const { vocabulary } = forward.config
  if (prompt.length === 0) throw new Error('the prompt is empty')
  if (prompt.length >= context) throw new Error(`the prompt of ${prompt.length} tokens leaves no room in a context of ${context}`)
  const stranger = prompt.find((token) => !(token >= 0 && token < vocabulary))
  if (stranger !== undefined) throw new Error(`the prompt's token ${stranger} is outside of the vocabulary of ${vocabulary}`)
  if (sampling.max_tokens < 1) throw new Error(`max_tokens must be at least 1 (got ${sampling.max_tokens})`)
  return Math.min(prompt.length + sampling.max_tokens, context)
}
