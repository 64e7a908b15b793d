// The HTTP surface: routes, admission, the one place where a request fails, and the record of each call.

import { isUtf8 } from 'node:buffer'
import { createHash, randomFillSync } from 'node:crypto'

import type { Lease } from '../pipeline/admission.ts'
import { Unauthenticated, type Authenticate, type Header } from '../pipeline/auth.ts'
import type { Log } from '../pipeline/component.ts'
import { readBody } from '../pipeline/http_body.ts'
import type { HttpHeaders, HttpRequest, HttpResponse, HttpService } from '../pipeline/http_exchange.ts'
import type { Api } from './api.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { createEnding, createOpen, type Ends } from './ending.ts'
import { REQUEST_ID, type Said } from './engines/engine.ts'
import { ApiError, apiError, errorBody } from './errors.ts'
import { isJson, wrong, type Json } from './fields.ts'
import type { Limits } from './limits.ts'
import { findModel, modelCard, modelList, type Model } from './models.ts'
import { decoded, originOf, splitPath } from './origin.ts'
import type { Recorder } from './recorder.ts'
import { createRemembered } from './remembered.ts'
import { createResponses } from './responses.ts'
import { sendEvent } from './sse.ts'

export interface EndpointOptions {
  readonly models: ReadonlyMap<string, Model>
  readonly authenticate: Authenticate | undefined
  readonly limits: Limits
  readonly lease: () => Lease
  readonly maxBodyBytes: number
  readonly recorder: Recorder
  readonly server: { readonly host: string; readonly port: number }
  readonly log: Log
}

export interface Endpoint {
  readonly serve: HttpService
  /** Whether requests to this path are calls, if they are POST. */
  isCalled(path: string): boolean
  /** From now on it is live, but not ready. Resolves when every answer is out; those that take longer than this are ended. */
  drain(ms: number): Promise<void>
}

/** Of responses that clients may refer to. */
const REMEMBERED_BYTES = 32 * 1024 * 1024
const DRAIN_RETRY_MS = 1_000
/** What the status of a client that has gone is called where it has a name. */
const GONE = new ApiError(499, 'client_closed_request', 'the client did not wait for the answer')

export function createEndpoint(options: EndpointOptions): Endpoint {
  const { models, authenticate, limits, lease, maxBodyBytes, recorder, server, log } = options
  const created = Math.floor(Date.now() / 1_000)
  const apis = new Map([chat, completions, createResponses(createRemembered(REMEMBERED_BYTES))].map((api) => [`/v1${api.path}`, api]))
  const open = createOpen()
  let closed = () => {}
  let draining = false

  async function route(request: HttpRequest, response: HttpResponse, ending: Ends): Promise<void> {
    const { parts, path } = splitPath(request.path)
    const random = randomHex()
    const ids = { id: random.slice(0, 24), span_id: random.slice(24, 40), trace_id: random.slice(40) }
    const api = request.method === 'POST' ? apis.get(path) : undefined
    try {
      if (path === '/health/live') return send(response, 200, ids.id, { status: 'live' })
      if (path === '/health/ready') return ready(response, ids.id)
      const asked = authenticate?.(request.header)
      if (asked) await asked
      if (api) return await call(api, ids, parts, request, response, ending)
      if (request.method !== 'GET') throw nowhere(request.method, path)
      if (path === '/v1/models') return send(response, 200, ids.id, modelList([...models.keys()], created))
      if (!path.startsWith('/v1/models/')) throw nowhere(request.method, path)
      const name = decoded(path.slice('/v1/models/'.length))
      findModel(models, name)
      send(response, 200, ids.id, modelCard(name, created))
    } catch (error) {
      fail(response, ids.id, error)
    }
  }

  function ready(response: HttpResponse, request_id: string): void {
    const problems = [...models].flatMap(([name, { engine }]) => {
      const problem = draining ? 'the endpoint is stopping' : engine.problem()
      return problem === null ? [] : [{ model: name, problem }]
    })
    send(response, problems.length > 0 ? 503 : 200, request_id, { status: problems.length > 0 ? 'not ready' : 'ready', problems })
  }

  /** From here on, whatever happens is recorded. */
  async function call(
    api: Api,
    ids: { readonly id: string; readonly span_id: string; readonly trace_id: string },
    parts: ReadonlyMap<string, string>,
    request: HttpRequest,
    response: HttpResponse,
    ending: Ends,
  ): Promise<void> {
    const started_at = Date.now()
    const said: Said = {}
    const held = lease()
    const origin = originOf(parts, request.header)
    const { span_id } = ids
    const trace_id = origin.trace_id || traceOf(origin.attributes) || ids.trace_id
    let body: Json | undefined
    let leave: (() => void) | undefined
    let error: ApiError | undefined
    try {
      if (draining) throw stopping()
      leave = limits.enter(authenticate ? keyOf(request.header) : '')
      const bytes = await readBody(request, maxBodyBytes, held)
      body = parse(bytes)
      if (typeof body.model !== 'string') throw wrong('model', 'the name of a model', body.model)
      const { engine, version } = findModel(models, body.model)
      const traceparent = `00-${trace_id}-${span_id}-01`
      const { header } = request
      const { id: request_id } = ids
      const id = `${api.id_prefix}${request_id}`
      await engine.answer({ api, id, request_id, model: body.model, version, body, bytes, header, traceparent, response, ending }, said)
    } catch (thrown) {
      error = ending.reason ?? apiError(thrown)
      fail(response, ids.id, error)
    } finally {
      held.end()
      leave?.()
      ending.forget()
    }
    const { parent_span_id } = origin
    recorder.record({
      span_id,
      trace_id,
      parent_span_id,
      origin,
      operation: api.operation,
      body,
      said,
      error,
      server,
      started_at,
      ended_at: Date.now(),
    })
  }

  /** Where the answer has begun, its status is gone: the error is then the last event of the stream. */
  function fail(response: HttpResponse, request_id: string, thrown: unknown): void {
    const error = apiError(thrown)
    if (error.code === 'internal_error') log.error('A request failed', { error: error.cause })
    if (response.isBegun()) {
      sendEvent(response, request_id, errorBody(error))
      return response.end()
    }
    const { retryAfterMs } = error
    send(response, error.status, request_id, errorBody(error), {
      ...(thrown instanceof Unauthenticated && { 'www-authenticate': thrown.challenge }),
      ...(retryAfterMs !== undefined && { 'retry-after': Math.ceil(retryAfterMs / 1_000), 'retry-after-ms': Math.ceil(retryAfterMs) }),
    })
  }

  function serve(request: HttpRequest, response: HttpResponse): void {
    const ending = createEnding()
    const leave = open.enter(ending)
    response.onClose((isWhole) => {
      if (!isWhole) ending.end(GONE)
      leave()
      if (open.count === 0) closed()
    })
    void route(request, response, ending)
  }

  async function drain(ms: number): Promise<void> {
    draining = true
    const timer = setTimeout(() => open.end(stopping()), ms)
    if (open.count > 0) await new Promise<void>((resolve) => (closed = resolve))
    clearTimeout(timer)
  }

  return { serve, isCalled: (path) => apis.has(splitPath(path).path), drain }
}

const stopping = () => new ApiError(503, 'stopping', 'the endpoint is stopping', { retryAfterMs: DRAIN_RETRY_MS })

const RANDOM = 36
/** Random numbers for some requests to come: to ask for them each time takes longer. */
const store = Buffer.alloc(64 * RANDOM)
let used = store.length

function randomHex(): string {
  if (used === store.length) {
    randomFillSync(store)
    used = 0
  }
  return store.toString('hex', used, (used += RANDOM))
}

function parse(bytes: Buffer): Json {
  if (!isUtf8(bytes)) throw new ApiError(400, 'invalid_json', 'the body is not UTF-8')
  let body: unknown
  try {
    body = JSON.parse(bytes.toString())
  } catch (error) {
    throw new ApiError(400, 'invalid_json', `the body is not JSON: ${(error as Error).message}`)
  }
  if (!isJson(body)) throw new ApiError(400, 'invalid_json', 'the body must be a JSON object')
  return body
}

/** The calls of an attempt whose agent has no traces are one trace; '' where there is no attempt. */
function traceOf({ 'leyden.rollout.id': rollout, 'leyden.attempt.id': attempt = '' }: Readonly<Record<string, string>>): string {
  if (rollout === undefined) return ''
  return createHash('sha256').update(`${rollout}\0${attempt}`).digest('hex').slice(0, 32)
}

/** Keys are not kept, only what tells them apart. */
const keyOf = (header: Header): string =>
  createHash('sha256')
    .update(header('authorization') ?? '')
    .digest('hex')

const nowhere = (method: string, path: string) => new ApiError(404, 'unknown_url', `there is no ${method} ${path.slice(0, 200)} here`)

function send(response: HttpResponse, status: number, request_id: string, body: object, headers: HttpHeaders = {}): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.send({ status, headers: { [REQUEST_ID]: request_id, ...headers, 'content-type': 'application/json' }, body: bytes })
}
