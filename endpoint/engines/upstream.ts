// Any server that speaks OpenAI's API: its answers are passed on byte for byte, as they come, and recorded on the way. A request is
// tried again only as long as nothing of an answer has come. By a client of our own (http/post.ts).

import { validateHeaderValue } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

import { connectingTo, posting, Silent } from '../../http/post.ts'
import type { Header } from '../../pipeline/auth.ts'
import type { Context } from '../../pipeline/component.ts'
import type { Policies } from '../../storage/policies.ts'
import type { Api } from '../api.ts'
import { ApiError } from '../errors.ts'
import { isJson, type Json } from '../fields.ts'
import { EVENT_STREAM, eventsIn } from '../sse.ts'
import { publishedAdapters } from './adapters.ts'
import { REQUEST_ID, type Engine, type EngineCall, type Said } from './engine.ts'
import { headersIn, isForwarded, type Headers } from './upstream_headers.ts'

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

/** Takes an answer in. */
interface Sink {
  /** False: not before `resume` was called. */
  data(chunk: Buffer): boolean
  end(): void
}
type OpenSink = (status: number, headers: Headers, resume: () => void) => Sink

/** Of a stream. */
interface Kept {
  readonly chunks: Buffer[]
  /** Of all that came; past the limit, chunks are not kept. */
  size: number
}

const CONNECT_MS = 10_000
/** A server that is starting, or overwhelmed; what it says of a request is passed on. */
const RETRYABLE = new Set([502, 503, 504])
const RETRY_MS = 200
/** A larger answer is passed on as a stream, and is missing in the record. */
const MAX_RECORDED_BYTES = 32 * 1024 * 1024
/** Of an answer that is no JSON, so much is told. */
const SHOWN = 200
const NOTHING: Sink = { data: () => true, end() {} }

export function upstreamEngine(options: UpstreamOptions, policies: () => Policies, context: Pick<Context, 'count' | 'log'>): Engine {
  const { url, timeout, retries, policy } = options
  const passed = options.forward_headers.filter(isForwarded)
  const { protocol, host, hostname, port, pathname } = new URL(url)
  const server = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) }
  const poster = posting({ connect: connectingTo(url), connections: Infinity, timeoutMs: timeout, connectMs: CONNECT_MS })
  checkKey(url, options.api_key ?? '')
  const path = pathname.replace(/\/$/, '')
  const authorization = options.api_key === null ? '' : `authorization: Bearer ${options.api_key}\r\n`
  const ownHeaders = `host: ${host}\r\nconnection: keep-alive\r\ncontent-type: application/json\r\n${authorization}`

  const adapters = policy === null ? undefined : publishedAdapters(url, policy, options.api_key, policies, context)

  async function answer(call: EngineCall, said: Said): Promise<void> {
    said.server = server
    const version = adapters && (await adapters.serve(call.version))
    if (version) said.policy_version = version.version
    const body = outgoing(call, version?.model ?? options.model, options.token_ids)
    for (let left = retries; ; left--) {
      if (await attempt(call, body, said, left > 0)) return
      context.count('leyden_endpoint_upstream_retries', 1, { model: options.model })
      await sleep(RETRY_MS * 2 ** (retries - left), undefined, { signal: call.ending.signal() })
    }
  }

  /** False: it did not answer, and is to be asked again. */
  async function attempt(call: EngineCall, body: Buffer, said: Said, again: boolean): Promise<boolean> {
    let status = 0
    try {
      await ask(call, body, (answered, headers, resume) => {
        status = answered
        if (again && RETRYABLE.has(status)) return NOTHING
        const type = headers['content-type'] ?? ''
        return status === 200 && type.includes(EVENT_STREAM) ? streamed(call, headers, said, resume) : whole(call, status, headers, said)
      })
      return !(again && RETRYABLE.has(status))
    } catch (error) {
      if (call.ending.reason) throw call.ending.reason
      const problem = status === 0 ? unreachable(error) : brokeOff(error)
      if (status !== 0 || !again || problem.status === 504) throw problem
      return false
    }
  }

  /** Resolves when the whole answer was taken in; rejects with what went wrong on the way. */
  function ask({ api, header, traceparent, ending }: EngineCall, body: Buffer, open: OpenSink): Promise<void> {
    return new Promise((resolve, reject) => {
      let sink = NOTHING
      const head = `POST ${path}${api.path} HTTP/1.1\r\n${ownHeaders}${forwarded(header, traceparent)}content-length: ${body.length}\r\n\r\n`
      const sent = poster.send(head, [body], {
        begin(status, answered) {
          sink = open(status, headersIn(answered), sent.resume)
        },
        data(piece) {
          if (!sink.data(Buffer.from(piece))) sent.pause()
        },
        end() {
          try {
            sink.end()
            resolve()
          } catch (error) {
            reject(error as Error)
          }
        },
        fail: reject,
      })
      ending.listen(sent.stop)
    })
  }

  function forwarded(header: Header, traceparent: string): string {
    let lines = ''
    for (const name of passed) {
      const value = name === 'traceparent' ? traceparent : header(name)
      if (value !== undefined) lines += `${name}: ${value}\r\n`
    }
    return lines
  }

  function whole({ response, request_id }: EngineCall, status: number, headers: Headers, said: Said): Sink {
    const chunks: Buffer[] = []
    let size = 0
    return {
      data(chunk) {
        size += chunk.length
        if (size > MAX_RECORDED_BYTES) throw new Error('it is too large')
        chunks.push(chunk)
        return true
      },
      end() {
        const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)
        said.first_token_at = Date.now()
        const body = status >= 400 ? jsonIn(bytes) : undefined
        if (status >= 400 ? !body : !looksLikeJson(bytes)) throw notJson(url, status, headers, bytes)
        response.send({ status, headers: answerHeaders(request_id, headers), body: bytes })
        if (body) throw refusal(status, body)
        said.response = readLater(bytes)
      },
    }
  }

  /** Waits for a client that is slow, so that nothing piles up here. */
  function streamed({ api, response, request_id }: EngineCall, headers: Headers, said: Said, resume: () => void): Sink {
    const kept: Kept = { chunks: [], size: 0 }
    said.response = joinLater(api, kept)
    response.begin(200, answerHeaders(request_id, headers))
    return {
      data(chunk) {
        said.first_token_at ??= Date.now()
        kept.size += chunk.length
        if (kept.size <= MAX_RECORDED_BYTES) kept.chunks.push(chunk)
        return response.write(chunk, resume)
      },
      end: () => response.end(),
    }
  }

  function unreachable(error: unknown): ApiError {
    if (error instanceof ApiError) return error
    if (error instanceof Silent) return new ApiError(504, 'upstream_timeout', `${url} did not answer within ${timeout / 1_000} s`)
    const { code, message } = error as NodeJS.ErrnoException
    return new ApiError(502, 'upstream_unreachable', `${url} cannot be reached: ${code ?? message}`, { cause: error })
  }

  function brokeOff(error: unknown): ApiError {
    if (error instanceof ApiError) return error
    return new ApiError(502, 'upstream_died', `${url} broke off in the middle of its answer`, { cause: error })
  }

  return {
    problem: () => null,
    answer,
    start: async () => adapters?.start(),
    async close() {
      await adapters?.stop()
      poster.close()
    },
  }
}

function checkKey(url: string, api_key: string): void {
  try {
    validateHeaderValue('authorization', api_key)
  } catch {
    throw new Error(`the api_key for ${url} has a character that no header may have, such as the end of a line`)
  }
}

/** The request as the server is to get it: its own name of the model, and the questions that only an engine can answer. */
function outgoing({ body, bytes }: EngineCall, model: string, token_ids: boolean): Buffer {
  if (body.model === model && !token_ids) return bytes
  const logprobs = 'prompt' in body ? { logprobs: body.logprobs ?? 0 } : { logprobs: true }
  return Buffer.from(JSON.stringify({ ...body, model, ...(token_ids && { return_token_ids: true, ...logprobs }) }))
}

function answerHeaders(request_id: string, headers: Headers): Record<string, string> {
  const passed: Record<string, string> = { [REQUEST_ID]: request_id }
  for (const name in headers) passed[name] = headers[name]!
  return passed
}

/** An object, as a whole answer is: a page of HTML, or an answer that was cut off, is none. */
function looksLikeJson(bytes: Buffer): boolean {
  let [from, to] = [0, bytes.length - 1]
  while (isBlank(bytes[from])) from++
  while (isBlank(bytes[to])) to--
  return bytes[from] === OPEN && bytes[to] === CLOSE
}

const [OPEN, CLOSE] = [0x7b, 0x7d]
/** Spaces, tabs and ends of lines. */
const isBlank = (byte: number | undefined): boolean => byte === 0x20 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d)

// What an answer says is read when the client has it. These are made out of sight of all else that a request is made of: what such a function
// sees lives as long as it does, and objects that live long enough to be moved are what makes the pauses of garbage collection long.
const readLater = (bytes: Buffer) => () => jsonIn(bytes)
const joinLater =
  ({ join }: Api, kept: Kept) =>
  () =>
    kept.size > MAX_RECORDED_BYTES ? undefined : join(eventsIn(Buffer.concat(kept.chunks).toString()))

function jsonIn(bytes: Buffer): Json | undefined {
  try {
    const body: unknown = JSON.parse(bytes.toString())
    return isJson(body) ? body : undefined
  } catch {
    return undefined
  }
}

function notJson(url: string, answered: number, headers: Headers, bytes: Buffer): ApiError {
  const said = bytes.toString('utf8', 0, SHOWN).replace(/\s+/g, ' ').trim()
  const status = answered === 429 || answered === 503 ? answered : 502
  const seconds = Number(headers['retry-after'])
  const more = Number.isFinite(seconds) ? { retryAfterMs: seconds * 1_000 } : {}
  return new ApiError(status, 'upstream_not_json', `${url} answered ${answered} with what is no JSON: ${said}`, more)
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
