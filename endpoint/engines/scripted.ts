// A model that says what its configuration says: for tests and demos. Its tokens are the UTF-8 bytes of a transcript, and it is sure
// of each of them, so that what is recorded of its calls has the form of a real model's.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

import type { SampledToken } from '../../policy/decoding.ts'
import type { Answer, Ask, ChatMessage, Prompt, ToolCall } from '../api.ts'
import { ApiError } from '../errors.ts'
import { localEngine } from './local.ts'
import type { Engine } from './engine.ts'

export interface ScriptedOptions {
  readonly model: string
  /** The first whose `when` fits the last message; else those without one, in turn. */
  readonly answers: readonly ScriptedAnswer[]
  /** Milliseconds between two words. */
  readonly word_interval: number
}

export interface ScriptedAnswer {
  /** A regular expression. */
  readonly when: string | null
  readonly text: string
  readonly tool_calls: readonly { readonly name: string; readonly arguments: string }[]
  /** A status to fail with. */
  readonly error: number | null
}

export function scriptedEngine({ model, answers, word_interval }: ScriptedOptions): Engine {
  const rules = answers.flatMap((answer) => (answer.when === null ? [] : [{ answer, fits: new RegExp(answer.when) }]))
  const inTurn = answers.filter(({ when }) => when === null)
  let turn = 0

  function next(prompt: Prompt): ScriptedAnswer {
    const said = lastWords(prompt)
    const rule = rules.find(({ fits }) => fits.test(said))
    const answer = rule?.answer ?? inTurn[turn++ % inTurn.length]
    if (!answer) throw new ApiError(400, 'no_answer', `no answer of the model "${model}" fits ${JSON.stringify(said.slice(0, 80))}`)
    if (answer.error !== null) throw new ApiError(answer.error, 'scripted', answer.text || 'the script says so')
    return answer
  }

  return localEngine({
    problem: () => null,
    async prepare(ask) {
      return {
        prompt_token_ids: [...Buffer.from(transcript(ask.prompt))],
        model,
        version: undefined,
        params: {},
        async generate(_seed, each, abort) {
          const { words, answer } = spoken(next(ask.prompt), ask)
          for (const [i, tokens] of words.entries()) {
            if (word_interval > 0 && i > 0) await sleep(word_interval, undefined, { signal: abort })
            each({ text: textOf(tokens), tool_calls: [], tokens })
          }
          const tool_calls = answer.tool_calls.map((call, index) => ({ index, ...call }))
          if (tool_calls.length > 0) each({ text: '', tool_calls, tokens: answer.tokens.slice(words.flat().length) })
          return answer
        },
      }
    },
  })
}

function lastWords(prompt: Prompt): string {
  if (prompt.kind === 'chat') return prompt.messages.at(-1)!.content
  return prompt.kind === 'text' ? prompt.text : Buffer.from(prompt.ids).toString()
}

/** What the script says within the limits of the request: as words for the stream, and whole. */
function spoken(script: ScriptedAnswer, ask: Ask): { words: SampledToken[][]; answer: Answer } {
  const stops = ask.stop.map((stop) => script.text.indexOf(stop)).filter((at) => at >= 0)
  const said = tokensOf(script.text.slice(0, Math.min(script.text.length, ...stops)))
  const limit = ask.max_tokens ?? Infinity
  const tool_calls: ToolCall[] = script.tool_calls.map((call) => ({ id: `call_${randomUUID().replaceAll('-', '')}`, ...call }))
  const all = [...said, ...tokensOf(callsText(tool_calls)), END]
  if (all.length > limit) {
    const kept = all.slice(0, Math.min(limit, said.length))
    return { words: inWords(kept), answer: { text: textOf(kept), tool_calls: [], finish_reason: 'length', tokens: kept } }
  }
  const finish_reason = tool_calls.length > 0 ? 'tool_calls' : 'stop'
  return { words: inWords(said), answer: { text: textOf(said), tool_calls, finish_reason, tokens: all } }
}

/** The last byte of a character carries its text. */
const tokensOf = (text: string): SampledToken[] =>
  [...text].flatMap((character) =>
    [...Buffer.from(character)].map((id, i, bytes) => ({ id, text: i === bytes.length - 1 ? character : '', logprob: 0, top: [] })),
  )

const END: SampledToken = { id: 10, text: '', logprob: 0, top: [] }

const textOf = (tokens: readonly SampledToken[]): string => tokens.map(({ text }) => text).join('')

function inWords(tokens: readonly SampledToken[]): SampledToken[][] {
  const words: SampledToken[][] = [[]]
  for (const token of tokens) {
    words.at(-1)!.push(token)
    if (/\s/.test(token.text)) words.push([])
  }
  return words.filter(({ length }) => length > 0)
}

const callsText = (calls: readonly ToolCall[]): string =>
  calls.map(({ name, arguments: args }) => `<tool_call>${name} ${args}</tool_call>`).join('')

/** A prompt as the model would read it: what it answers is the next line. */
function transcript(prompt: Prompt): string {
  if (prompt.kind === 'tokens') return Buffer.from(prompt.ids).toString()
  if (prompt.kind === 'text') return prompt.text
  return `${prompt.messages.map(line).join('')}assistant: `
}

const line = ({ role, content, tool_calls = [] }: ChatMessage): string => `${role}: ${content}${callsText(tool_calls)}\n`
