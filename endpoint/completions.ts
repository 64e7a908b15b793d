// POST /v1/completions: https://platform.openai.com/docs/api-reference/completions. One prompt a request, as text or as token ids.

import type { SampledToken } from '../policy/decoding.ts'
import { usageOf, type Api, type Prompt } from './api.ts'
import { invalid } from './errors.ts'
import { integerIn, isJson, wrong, type Json } from './fields.ts'
import { MAX_TOP_LOGPROBS, readShared } from './sampling.ts'

/** As OpenAI has it. */
const MAX_TOKENS = 16

export const completions: Api = {
  path: '/completions',
  operation: 'text_completion',
  id_prefix: 'cmpl-',
  terminator: 'data: [DONE]\n\n',

  read(body) {
    for (const name of ['echo', 'suffix', 'best_of', 'prompt_embeds'])
      if (body[name] && body[name] !== 1) throw invalid(name, `'${name}' is not supported by this model`, 'unsupported_parameter')
    return {
      ...readShared(body),
      prompt: readPrompt(body.prompt),
      max_tokens: integerIn(body, 'max_tokens', 1) ?? MAX_TOKENS,
      logprobs: integerIn(body, 'logprobs', 0, MAX_TOP_LOGPROBS) ?? null,
      format: null,
    }
  },

  whole(head, ask, answers) {
    return {
      ...{ id: head.id, object: 'text_completion', created: head.created, model: head.model, system_fingerprint: head.fingerprint },
      choices: answers.map(({ text, finish_reason, tokens }, index) => ({
        ...{ index, text, finish_reason },
        logprobs: ask.logprobs === null ? null : logprobsOf(tokens, 0),
        ...(ask.return_token_ids && { prompt_token_ids: head.prompt_token_ids, token_ids: tokens.map(({ id }) => id) }),
      })),
      usage: usageOf(head, answers),
    }
  },

  events(head, ask, emit) {
    // With all that each has, as in chat.ts.
    const same = {
      ...{ id: head.id, object: 'text_completion', created: head.created, model: head.model, system_fingerprint: head.fingerprint },
      ...{ choices: [], ...(ask.include_usage && { usage: null }) },
    }
    const chunk = (choices: readonly object[], more: object = {}) => emit({ ...same, choices, ...more })
    const offsets = new Map<number, number>()
    return {
      piece(index, { text, tokens }) {
        if (text === '' && !ask.return_token_ids && ask.logprobs === null) return
        const offset = offsets.get(index)
        offsets.set(index, (offset ?? 0) + text.length)
        const ids = {
          token_ids: tokens.map(({ id }) => id),
          ...(offset === undefined && { prompt_token_ids: head.prompt_token_ids }),
        }
        const logprobs = ask.logprobs === null ? null : logprobsOf(tokens, offset ?? 0)
        chunk([{ index, text, logprobs, finish_reason: null, ...(ask.return_token_ids && ids) }])
      },
      end: (index, { finish_reason }) => chunk([{ index, text: '', logprobs: null, finish_reason }]),
      close(answers) {
        if (ask.include_usage) chunk([], { usage: usageOf(head, answers) })
      },
    }
  },

  join: joinCompletions,
}

function readPrompt(prompt: unknown): Prompt {
  const one = Array.isArray(prompt) && prompt.length === 1 && typeof prompt[0] !== 'number' ? (prompt[0] as unknown) : prompt
  if (typeof one === 'string') return { kind: 'text', text: one }
  if (Array.isArray(one) && one.length > 0 && one.every((id) => Number.isSafeInteger(id) && (id as number) >= 0)) {
    return { kind: 'tokens', ids: one as number[] }
  }
  throw wrong('prompt', 'one string, or one list of token ids', prompt)
}

function logprobsOf(tokens: readonly SampledToken[], offset: number): object {
  let at = offset
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) => Object.fromEntries(top.map(({ text, logprob }) => [text, logprob]))),
    text_offset: tokens.map(({ text }) => (at += text.length) - text.length),
  }
}

/** For the record: one choice, its text, its token ids. */
function joinCompletions(chunks: readonly Json[]): Json | undefined {
  const first = chunks.find(({ choices }) => Array.isArray(choices))
  if (!first) return undefined
  const choices = new Map<
    number,
    { text: string; token_ids: unknown[]; logprobs: unknown[]; prompt_token_ids: unknown; finish_reason: unknown }
  >()
  for (const choice of chunks.flatMap(({ choices }) => (Array.isArray(choices) ? choices.filter(isJson) : []))) {
    const index = Number(choice.index ?? 0)
    const known = choices.get(index) ?? { text: '', token_ids: [], logprobs: [], prompt_token_ids: undefined, finish_reason: null }
    choices.set(index, known)
    if (typeof choice.text === 'string') known.text += choice.text
    if (Array.isArray(choice.token_ids)) known.token_ids.push(...(choice.token_ids as unknown[]))
    if (isJson(choice.logprobs) && Array.isArray(choice.logprobs.token_logprobs)) known.logprobs.push(...choice.logprobs.token_logprobs)
    known.prompt_token_ids ??= choice.prompt_token_ids ?? undefined
    known.finish_reason = choice.finish_reason ?? known.finish_reason
  }
  const usage = chunks.findLast((chunk) => isJson(chunk.usage))?.usage
  return {
    ...{ id: first.id, model: first.model, usage },
    choices: [...choices].map(([index, { logprobs, ...choice }]) => ({ index, ...choice, logprobs: { content: logprobs } })),
  }
}
