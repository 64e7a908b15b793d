// Rewards over HTTP: for people, judges and shops that know how a run went, now or weeks later, and have no tracer at hand. A
// score becomes an OpenTelemetry log record, so that it is stored before it is acknowledged, as everything else is.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { fromJson } from '../data/otlp_json.ts'
import { parseJson } from '../data/parse_json.ts'
import { Malformed, scan } from '../data/scan.ts'
import { InvalidScore, scoreRecord } from '../data/score_body.ts'
import { admission, createAdmission, type Lease } from '../pipeline/admission.ts'
import { auth, authenticating, Unauthenticated, type Authenticate } from '../pipeline/auth.ts'
import { Permanent, receiver, Refused, type Consumer } from '../pipeline/component.ts'
import { BodyError, bodyOf, readBody } from '../pipeline/http_body.ts'
import { createHttpServer } from '../pipeline/http_server.ts'
import { checkEndpoint, close, listen, parseEndpoint } from '../pipeline/listen.ts'
import { number, text } from '../pipeline/schema.ts'
import { checkTls, loadTls, tls } from '../pipeline/tls.ts'

const MIB = 1024 * 1024
const PATH = '/v1/scores'

export default receiver({
  type: 'scores',
  summary: 'Takes scores by `POST /v1/scores`, one or many, in the fields of a Langfuse score.',
  signals: ['logs'],
  config: {
    endpoint: text('Address and port to listen on.', { default: 'localhost:4319' }),
    tls,
    auth,
    max_request_body_size: number('Largest body, in bytes, after decompression.', { default: 16 * MIB, min: 1, integer: true }),
    max_scores: number('Most scores in one request.', { default: 10_000, min: 1, integer: true }),
    admission,
  },
  check: ({ endpoint, tls }) => [...checkEndpoint(endpoint, 'endpoint'), ...checkTls(tls, 'tls')],

  create(options, context) {
    const { id, log, count } = context
    const running: (() => Promise<void> | void)[] = []

    async function start({ logs: next }: { logs?: Consumer<'logs'> }): Promise<void> {
      const secured = options.tls && (await loadTls(options.tls, context))
      if (secured) running.push(secured.stop)
      const limited = (limit: string) => count('receiver_limit_hits', 1, { transport: 'http', limit })
      const lease = createAdmission(options.admission, () => limited('request_limit_mib'))
      const authenticate = authenticating(options.auth, context, 'http')
      const server = createHttpServer({ tls: secured ?? undefined, limited }, (request, response) => {
        void answer(request, response, next ?? (async () => {}), lease(), authenticate)
      })
      const address = parseEndpoint(options.endpoint)!
      const { port } = await listen(server, address, `receivers::${id}::endpoint`)
      running.push(() => close(server))
      log.info('Starting HTTP server', { endpoint: `${address.host}:${port}` })
    }

    async function answer(
      request: IncomingMessage,
      response: ServerResponse,
      next: Consumer<'logs'>,
      lease: Lease,
      authenticate: Authenticate | undefined,
    ): Promise<void> {
      try {
        await authenticate?.((name) => request.headers[name]?.toString())
        if (request.url!.split('?', 1)[0] !== PATH) return send(response, 404, { message: `there is only ${PATH} here` })
        if (request.method !== 'POST') {
          response.setHeader('allow', 'POST')
          return send(response, 405, { message: 'must be POST' })
        }
        const body = parseJson((await readBody(bodyOf(request), options.max_request_body_size, lease)).toString())
        const { status, answer } = await take(body, next)
        send(response, status, answer)
      } catch (error) {
        if (error instanceof Unauthenticated) response.setHeader('www-authenticate', error.challenge)
        if (error instanceof Refused) response.setHeader('retry-after', Math.ceil(error.retryAfterMs / 1_000))
        send(response, statusOf(error), { message: (error as Error).message })
      } finally {
        lease.end()
      }
    }

    async function take(body: unknown, next: Consumer<'logs'>): Promise<{ status: number; answer: object }> {
      const list = listIn(body)
      const bodies = list ?? [body]
      if (bodies.length > options.max_scores) {
        throw new BodyError(413, `a request must hold at most ${options.max_scores} scores (got ${bodies.length})`)
      }
      const now = Date.now()
      const records: object[] = []
      const successes: { id: string; status: number }[] = []
      const errors: { id: string | null; index: number; status: number; message: string }[] = []
      for (const [index, one] of bodies.entries()) {
        try {
          const { id, record } = scoreRecord(one, now)
          records.push(record)
          successes.push({ id, status: 201 })
        } catch (error) {
          if (!(error instanceof InvalidScore)) throw error
          errors.push({ id: idIn(one), index, status: 400, message: error.message })
        }
      }
      count('receiver_refused_log_records', errors.length, { transport: 'http' })
      if (records.length > 0) await next([logs(records)])
      count('receiver_accepted_log_records', records.length, { transport: 'http' })
      if (list) return { status: errors.length > 0 ? 207 : 200, answer: { successes, errors } }
      return errors.length > 0
        ? { status: 400, answer: { message: errors[0]!.message } }
        : { status: 200, answer: { id: successes[0]!.id } }
    }

    async function shutdown(): Promise<void> {
      await Promise.all(running.splice(0).map((stop) => stop()))
    }

    return { start, shutdown }
  },
})

/** The scores of a batch: a list, or Langfuse's `{batch: [{type: score-create, body}]}`. Null for a single score. */
function listIn(body: unknown): unknown[] | null {
  if (Array.isArray(body)) return body
  const { batch } = (body ?? {}) as { batch?: unknown }
  return Array.isArray(batch) ? batch.map((event: { body?: unknown } | null) => event?.body ?? event) : null
}

function idIn(body: unknown): string | null {
  const { id } = (body ?? {}) as { id?: unknown }
  return typeof id === 'string' ? id.slice(0, 200) : null
}

function logs(logRecords: readonly object[]) {
  const scope = { name: 'leyden.scores' }
  return scan('logs', fromJson('logs', { resourceLogs: [{ resource: {}, scopeLogs: [{ scope, logRecords }] }] })).batch
}

function statusOf(error: unknown): number {
  if (error instanceof BodyError) return error.status
  if (error instanceof Malformed) return 400
  if (error instanceof Unauthenticated) return 401
  return error instanceof Permanent ? 500 : 503
}

function send(response: ServerResponse, status: number, body: object): void {
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length }).end(bytes)
}
