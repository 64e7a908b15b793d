// Any server that speaks OpenAI's API: its answers are passed on byte for byte, as they come, and recorded on the way. A request is
// tried again only as long as nothing of an answer has come.

import { once } from 'node:events'
import { Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Context } from '../../pipeline/component.ts'
import type { Policies } from '../../storage/policies.ts'
import { ApiError } from '../errors.ts'
import { isJson, type Json } from '../fields.ts'
import { EVENT_STREAM, eventsIn } from '../sse.ts'
import { publishedAdapters } from './adapters.ts'
import type { Engine, EngineCall, Said } from './engine.ts'

export interface UpstreamOptions {
  /** With the version of the API, e.g. `http://localhost:8000/v1`. */
  readonly url: string
  readonly api_key: string | null
  /** Name of the model there. */
  readonly model: string
  /** Names in lower case of the headers of a request that are passed on. */
  readonly forward_headers: readonly string[]
  /** Milliseconds until the first byte of an answer, and between two of them. */
  readonly timeout: number
  readonly retries: number
  readonly token_ids: boolean
  /** Whose versions are published to it as adapters; null: `model` is all there is. */
  readonly policy: string | null
}

/** Headers of an answer that are passed on; and all that begin with x-ratelimit-. */
const ANSWER_HEADERS = [
  'content-type',
  'cache-control',
  'retry-after',
  'retry-after-ms',
  'x-request-id',
  'openai-processing-ms',
  'openai-version',
]
/** A server that is starting, or overwhelmed; what it says of a request is passed on. */
const RETRYABLE = new Set([502, 503, 504])
const RETRY_MS = 200
/** A larger answer is passed on as a stream, and is missing in the record. */
const MAX_RECORDED_BYTES = 32 * 1024 * 1024
/** Of an answer that is no JSON, so much is told. */
const SHOWN = 200

export function upstreamEngine(options: UpstreamOptions, policies: () => Policies, context: Pick<Context, 'count' | 'log'>): Engine {
  const { url, forward_headers, timeout, retries, policy } = options
  const { protocol, hostname, port, pathname } = new URL(url)
  const secure = protocol === 'https:'
  const path = pathname.replace(/\/$/, '')
  const agent = secure ? new HttpsAgent({ keepAlive: true, timeout }) : new HttpAgent({ keepAlive: true, timeout })
  const request = secure ? httpsRequest : httpRequest
  const base = { agent, host: hostname, port: port || (secure ? 443 : 80), method: 'POST' }
  const server = { host: hostname, port: Number(base.port) }

  const adapters = policy === null ? undefined : publishedAdapters(url, policy, options.api_key, policies, context)

  async function answer(call: EngineCall, said: Said): Promise<void> {
    said.server = server
    const version = adapters && (await adapters.serve(call.version))
    if (version) said.policy_version = version.version
    const body = outgoing(call, version?.model ?? options.model, options.token_ids)
    const reply = await begun(call, body)
    const type = reply.headers['content-type'] ?? ''
    if (reply.statusCode === 200 && type.startsWith(EVENT_STREAM)) return passStream(call, reply, said)
    return passWhole(call, reply, said)
  }

  /** The first answer that is none of those after which it is tried again. */
  async function begun(call: EngineCall, body: Buffer): Promise<IncomingMessage> {
    for (let tries = 0; ; tries++) {
      try {
        const reply = await send(call, body)
        if (!RETRYABLE.has(reply.statusCode!) || tries >= retries) return reply
        reply.resume()
      } catch (error) {
        if (call.abort.aborted || error instanceof ApiError || tries >= retries) throw unreachable(error, url)
      }
      context.count('leyden_endpoint_upstream_retries', 1, { model: options.model })
      await sleep(RETRY_MS * 2 ** tries, undefined, { signal: call.abort })
    }
  }

  /** Without the option `signal` of a request, which costs as much as all the rest of it. */
  function send({ api, headers, traceparent, abort }: EngineCall, body: Buffer): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const sent = request({ ...base, path: path + api.path, headers: headersFor(headers, traceparent, body) })
      const end = () => void sent.destroy(abort.reason as Error)
      if (abort.aborted) end()
      abort.addEventListener('abort', end, { once: true })
      sent
        .on('timeout', () => sent.destroy(new ApiError(504, 'upstream_timeout', `${url} did not answer within ${timeout / 1_000} s`)))
        .on('response', resolve)
        .on('error', reject)
        .on('close', () => abort.removeEventListener('abort', end))
        .end(body)
    })
  }

  function headersFor(headers: IncomingHttpHeaders, traceparent: string, body: Buffer): Record<string, string | number> {
    const forwarded = forward_headers.flatMap((name) => {
      const value = name === 'traceparent' ? traceparent : headers[name]?.toString()
      return value === undefined ? [] : [[name, value] as const]
    })
    return {
      ...Object.fromEntries(forwarded),
      ...(options.api_key !== null && { authorization: `Bearer ${options.api_key}` }),
      'content-type': 'application/json',
      'content-length': body.length,
    }
  }

  async function passWhole({ response }: EngineCall, reply: IncomingMessage, said: Said): Promise<void> {
    const bytes = await collect(reply, url)
    const body = jsonIn(bytes)
    if (!body) throw notJson(url, reply, bytes)
    said.first_token_at = Date.now()
    if (reply.statusCode! >= 400) {
      response.writeHead(reply.statusCode!, answerHeaders(reply.headers)).end(bytes)
      throw refusal(reply.statusCode!, body)
    }
    said.response = () => body
    response.writeHead(reply.statusCode!, { ...answerHeaders(reply.headers), 'content-length': bytes.length }).end(bytes)
  }

  /** Waits for a client that is slow, so that nothing piles up here. */
  async function passStream({ api, response, abort }: EngineCall, reply: IncomingMessage, said: Said): Promise<void> {
    const kept: Buffer[] = []
    let size = 0
    said.response = () => (size > MAX_RECORDED_BYTES ? undefined : api.join(eventsIn(Buffer.concat(kept).toString())))
    response.writeHead(200, answerHeaders(reply.headers))
    response.socket?.setNoDelay(true)
    try {
      for await (const chunk of reply as AsyncIterable<Buffer>) {
        said.first_token_at ??= Date.now()
        size += chunk.length
        if (size <= MAX_RECORDED_BYTES) kept.push(chunk)
        if (!response.write(chunk)) await once(response, 'drain', { signal: abort })
      }
    } catch (error) {
      throw new ApiError(502, 'upstream_died', `${url} broke off in the middle of its answer`, { cause: error })
    }
    response.end()
  }

  return {
    problem: () => null,
    answer,
    start: async () => adapters?.start(),
    async close() {
      await adapters?.stop()
      agent.destroy()
    },
  }
}

/** The request as the server is to get it: its own name of the model, and the questions that only an engine can answer. */
function outgoing({ body, bytes }: EngineCall, model: string, token_ids: boolean): Buffer {
  if (body.model === model && !token_ids) return bytes
  const logprobs = 'prompt' in body ? { logprobs: body.logprobs ?? 0 } : { logprobs: true }
  return Buffer.from(JSON.stringify({ ...body, model, ...(token_ids && { return_token_ids: true, ...logprobs }) }))
}

function answerHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const names = Object.keys(headers).filter((name) => ANSWER_HEADERS.includes(name) || name.startsWith('x-ratelimit-'))
  return Object.fromEntries(names.map((name) => [name, headers[name]!.toString()]))
}

/** By events, since this is done for every answer: an iterator costs several times as much. */
function collect(reply: IncomingMessage, url: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const brokeOff = (cause: unknown) =>
      reject(new ApiError(502, 'upstream_died', `${url} broke off in the middle of its answer`, { cause }))
    const chunks: Buffer[] = []
    let size = 0
    reply
      .on('data', (chunk: Buffer) => {
        size += chunk.length
        chunks.push(chunk)
        if (size > MAX_RECORDED_BYTES) reply.destroy(new Error('it is too large'))
      })
      .on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)))
      .on('error', brokeOff)
      .on('aborted', brokeOff)
  })
}

function jsonIn(bytes: Buffer): Json | undefined {
  try {
    const body: unknown = JSON.parse(bytes.toString())
    return isJson(body) ? body : undefined
  } catch {
    return undefined
  }
}

function notJson(url: string, { statusCode, headers }: IncomingMessage, bytes: Buffer): ApiError {
  const said = bytes.toString('utf8', 0, SHOWN).replace(/\s+/g, ' ').trim()
  const status = statusCode === 429 || statusCode === 503 ? statusCode : 502
  const seconds = Number(headers['retry-after'])
  const more = Number.isFinite(seconds) ? { retryAfterMs: seconds * 1_000 } : {}
  return new ApiError(status, 'upstream_not_json', `${url} answered ${statusCode} with what is no JSON: ${said}`, more)
}

/** An error that the client has been given as it came. */
function refusal(status: number, body: Json): ApiError {
  const { message, code } = isJson(body.error) ? body.error : body
  return new ApiError(
    status,
    typeof code === 'string' ? code : 'upstream_error',
    typeof message === 'string' ? message : 'refused upstream',
  )
}

function unreachable(error: unknown, url: string): ApiError {
  if (error instanceof ApiError) return error
  const { code, message } = error as NodeJS.ErrnoException
  return new ApiError(502, 'upstream_unreachable', `${url} cannot be reached: ${code ?? message}`, { cause: error })
}
