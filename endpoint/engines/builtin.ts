// Leyden's own decoder: the policy under training, which takes a new version between two tokens of its answers.

import { readModelConfig } from '../../policy/model_config.ts'
import { openDecoder, type DecoderOptions } from '../../policy/decoder.ts'
import { DecoderBusy, FormFailed, type Decoder } from '../../policy/decoding.ts'
import { openTokenizer, type Tokenizer } from '../../policy/tokenizer.ts'
import type { ToolParser } from '../../policy/tool_parsers/parser.ts'
import type { Context } from '../../pipeline/component.ts'
import { messageOf } from '../../pipeline/retry.ts'
import type { Policies } from '../../storage/policies.ts'
import type { Ask, Tool } from '../api.ts'
import { drawnAnswer } from '../drawn_answer.ts'
import { ApiError, invalid } from '../errors.ts'
import { formOf } from '../form.ts'
import { followLive, type Following } from '../versions.ts'
import type { Engine } from './engine.ts'
import { localEngine, type Prepared } from './local.ts'

export interface BuiltinOptions {
  /** Name of the model. */
  readonly name: string
  /** Whose live version answers; null: `base` alone. */
  readonly policy: string | null
  /** Folder of the model that training began with; null: where the policy says it is. */
  readonly base: string | null
  readonly tool_parser: ToolParser
  /** Versions that are held beside the live one, for those who pin them. */
  readonly loaded_versions: number
  readonly decoder: DecoderOptions
}

interface Opened {
  readonly tokenizer: Tokenizer
  readonly context: number
  readonly decoder: Decoder
}

const BASE = 0
const BUSY_RETRY_MS = 1_000

export function builtinEngine(options: BuiltinOptions, policies: () => Policies, context: Context): Engine {
  const { name, policy, tool_parser } = options
  let opened: Opened | undefined
  let following: Following | undefined
  let waitingFor = 'it is being opened'
  /** Versions that are loaded or being loaded, the one that was used last at the end. */
  const loads = new Map<number, Promise<void>>()

  async function open(base: string): Promise<Opened> {
    const [tokenizer, decoder] = await Promise.all([openTokenizer(base), openDecoder(options.decoder)])
    return { tokenizer, decoder, context: readModelConfig(base).context }
  }

  async function start(): Promise<void> {
    context.gauge('leyden_policy_version', () => opened?.decoder.state().live ?? -1, { model: name })
    context.gauge('leyden_endpoint_answers_running', () => opened?.decoder.state().running ?? 0, { model: name })
    context.gauge('leyden_endpoint_answers_waiting', () => opened?.decoder.state().waiting ?? 0, { model: name })
    if (options.base !== null) opened = await open(options.base)
    if (policy === null) return takeBase(options.base!)
    waitingFor = `no version of the policy "${policy}" is known yet`
    following = followLive(policies(), policy, ({ version, path, base }) => goLive(version, path, base), baseOfPolicy, context)
  }

  /** A policy that has no version yet answers as it was before training. */
  async function baseOfPolicy(): Promise<void> {
    const base = options.base ?? (await policies().list()).find((known) => known.policy === policy)?.base
    if (base !== undefined) await takeBase(base)
  }

  async function takeBase(base: string): Promise<void> {
    if (opened?.decoder.state().live !== BASE) await goLive(BASE, base, base)
  }

  async function goLive(version: number, folder: string, base: string): Promise<void> {
    opened ??= await open(base)
    await load(opened, version, folder)
    opened.decoder.promote(version)
    forget(opened)
  }

  function load({ decoder }: Opened, version: number, folder: string): Promise<void> {
    const loading = loads.get(version) ?? decoder.load(version, folder)
    loads.delete(version)
    loads.set(version, loading)
    loading.catch(() => loads.delete(version))
    return loading
  }

  /** Answers that are under way on a version keep it until they end. */
  function forget({ decoder }: Opened): void {
    const { live, loaded } = decoder.state()
    const idle = [...loads.keys()].filter((version) => version !== live && loaded.includes(version))
    for (const version of idle.slice(0, Math.max(0, idle.length - options.loaded_versions))) {
      loads.delete(version)
      decoder.release(version)
    }
  }

  async function versionFor(to: Opened, pinned: number | undefined): Promise<number> {
    const { live } = to.decoder.state()
    if (live === null) throw notReady(problem()!)
    if (pinned === undefined || pinned === live) return live
    await load(to, pinned, await folderOf(pinned))
    forget(to)
    return pinned
  }

  async function folderOf(version: number): Promise<string> {
    if (loads.has(version)) return ''
    const known = policy === null ? undefined : (await policies().versions(policy)).find((row) => row.version === version)
    const base = version === BASE ? options.base : null
    if (known?.path) return known.path
    if (base !== null) return base
    const why = known ? 'its files are gone' : 'there is no such version'
    throw new ApiError(404, 'model_not_found', `"${name}@${version}" cannot answer: ${why}`, { param: 'model' })
  }

  async function prepare(ask: Ask, pinned: number | undefined): Promise<Prepared> {
    if (!opened) throw notReady(problem()!)
    const to = opened
    const form = formOf(ask, tool_parser)
    const prompt = promptIds(to, ask)
    const room = to.context - prompt.length
    if (room < 1) throw tooLong(prompt.length, to.context)
    const version = await versionFor(to, pinned)
    const sampling = {
      temperature: ask.temperature ?? 1,
      top_p: ask.top_p ?? 1,
      top_k: ask.top_k ?? 0,
      max_tokens: Math.min(ask.max_tokens ?? room, room),
      stop: ask.stop,
      top_logprobs: ask.logprobs ?? 0,
      form,
    }
    const { temperature, top_p, top_k, max_tokens } = sampling
    return {
      ...{ prompt_token_ids: prompt, model: name, version },
      params: { temperature, top_p, max_tokens, ...(top_k > 0 && { top_k }) },
      async generate(seed, each, abort) {
        const only = ask.prompt.kind === 'chat' && !ask.prompt.parallel_tool_calls
        const answer = drawnAnswer(mayCall(ask) ? tool_parser.stream() : undefined, only, each)
        try {
          const until = AbortSignal.any([abort, answer.enough])
          const { finish_reason } = await to.decoder.generate(prompt, { ...sampling, seed }, answer.push, until, version)
          return answer.end(finish_reason)
        } catch (error) {
          if (answer.enough.aborted) return answer.end('stop')
          throw abort.aborted ? error : failed(error)
        }
      },
    }
  }

  function problem(): string | null {
    return opened && opened.decoder.state().live !== null ? null : `the model "${name}" is not ready: ${waitingFor}`
  }

  async function close(): Promise<void> {
    await following?.stop()
    await opened?.decoder.close()
  }

  return localEngine({ problem, prepare, start, close })
}

const mayCall = ({ prompt }: Ask): boolean => prompt.kind === 'chat' && prompt.tools.length > 0 && prompt.tool_choice !== 'none'

function promptIds({ tokenizer }: Opened, { prompt }: Ask): readonly number[] {
  if (prompt.kind === 'text') return notEmpty(tokenizer.encode(prompt.text))
  if (prompt.kind === 'tokens') {
    const unknown = prompt.ids.find((id) => id >= tokenizer.vocab_size)
    if (unknown !== undefined) throw invalid('prompt', `'prompt' holds ${unknown}, and the vocabulary ends at ${tokenizer.vocab_size - 1}`)
    return prompt.ids
  }
  const messages = prompt.messages.map(({ tool_calls, ...message }) => ({
    ...message,
    ...(tool_calls && { tool_calls: tool_calls.map(({ id, ...fn }) => ({ id, type: 'function', function: fn })) }),
  }))
  try {
    return tokenizer.chat(messages, {
      tools: prompt.tool_choice === 'none' ? undefined : prompt.tools.map(asWritten),
      add_generation_prompt: true,
    }).ids
  } catch (error) {
    throw invalid('messages', messageOf(error))
  }
}

/** As templates know it. */
const asWritten = ({ type, function: fn }: Tool) => ({ type, function: fn })

function notEmpty(ids: readonly number[]): readonly number[] {
  if (ids.length === 0) throw invalid('prompt', `'prompt' must not be empty`)
  return ids
}

const tooLong = (length: number, context: number) =>
  invalid('messages', `the prompt has ${length} tokens, and the model reads ${context - 1} before it answers`, 'context_length_exceeded')

const notReady = (message: string) => new ApiError(503, 'not_ready', message, { retryAfterMs: BUSY_RETRY_MS })

/** All that a request could be at fault for was looked at before. */
function failed(error: unknown): ApiError {
  if (error instanceof FormFailed) return new ApiError(400, 'unsupported_schema', error.message)
  return new ApiError(503, error instanceof DecoderBusy ? 'overloaded' : 'decoder_failed', messageOf(error), {
    retryAfterMs: BUSY_RETRY_MS,
    cause: error,
  })
}
