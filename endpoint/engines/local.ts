// Engines of our own that answer in tokens: reads a request of any of the APIs, has its answers drawn, and writes them, whole or as
// events while they are drawn.

import { randomInt } from 'node:crypto'

import type { Answer, Api, Ask, Head, Piece } from '../api.ts'
import { sendEvent } from '../sse.ts'
import { REQUEST_ID, type Engine, type EngineCall, type Said } from './engine.ts'

/** What draws answers. */
export interface Generator extends Pick<Engine, 'problem' | 'start' | 'close'> {
  /** Reads the prompt. Rejects with ApiError where it cannot be answered. `version`: the one that is pinned. */
  prepare(ask: Ask, version: number | undefined): Promise<Prepared>
}

export interface Prepared {
  readonly prompt_token_ids: readonly number[]
  /** Name of the model, without the version that was pinned. */
  readonly model: string
  readonly version: number | undefined
  readonly params: Readonly<Record<string, number>>
  /** Draws one answer; `seed` makes it the same each time. */
  generate(seed: number, each: (piece: Piece) => void, abort: AbortSignal): Promise<Answer>
}

const MAX_SEED = 2 ** 31

export function localEngine({ prepare, ...generator }: Generator): Engine {
  async function answer(call: EngineCall, said: Said): Promise<void> {
    const { api, response, request_id } = call
    const body = api.resolve?.(call.body) ?? call.body
    said.body = body
    const ask = api.read(body)
    const { model, version, params, prompt_token_ids, generate } = await prepare(ask, call.version)
    const head: Head = {
      id: call.id,
      created: Math.floor(Date.now() / 1_000),
      model,
      fingerprint: version === undefined ? null : `${model}@${version}`,
      prompt_token_ids,
    }
    const events = ask.stream ? api.events(head, ask, (data, name) => sendEvent(response, request_id, data, name)) : undefined
    const seed = ask.seed ?? randomInt(MAX_SEED)
    said.params = { ...params, ...(ask.seed === undefined ? {} : { seed: ask.seed }) }
    if (version !== undefined) said.policy_version = version

    // One answer that fails takes the others with it.
    const failed = new AbortController()
    const abort = AbortSignal.any([call.ending.signal(), failed.signal])
    const answers = await Promise.all(
      Array.from({ length: ask.n }, async (_, choice) => {
        try {
          const drawn = await generate(
            seed + choice,
            (piece) => {
              said.first_token_at ??= Date.now()
              if (!response.isOver()) events?.piece(choice, piece)
            },
            abort,
          )
          events?.end(choice, drawn)
          return drawn
        } catch (error) {
          failed.abort(error)
          throw error
        }
      }),
    )
    said.response = wholeLater(api, head, ask, answers)
    said.tokens = tokensOf(prompt_token_ids, answers[0]!)
    api.remember?.(head, ask, answers)
    if (!events) {
      const body = Buffer.from(JSON.stringify(api.whole(head, ask, answers)))
      return response.send({ status: 200, headers: { [REQUEST_ID]: request_id, 'content-type': 'application/json' }, body })
    }
    events.close(answers)
    response.write(Buffer.from(api.terminator))
    response.end()
  }

  return { ...generator, answer }
}

// Made out of sight of the request, which would live as long as this does.
const wholeLater = (api: Api, head: Head, ask: Ask, answers: readonly Answer[]) => () => api.whole(head, ask, answers)

const tokensOf = (prompt: readonly number[], { tokens }: Answer) => ({
  prompt,
  response: tokens.map(({ id }) => id),
  // Of what the form forced on the policy, the policy's own distribution says nothing.
  logprobs: tokens.map(({ logprob, forced }) => (forced ? NaN : logprob)),
  source: 'engine' as const,
})
