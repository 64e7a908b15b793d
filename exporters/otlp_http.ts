// Passes spans and log records on by OTLP over HTTP, as the protobuf bytes in which they came. By undici's dispatcher, which costs half of what
// node:http does, and a quarter of gRPC: whoever answers agents in the same process would make them wait for that.

import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

import { buildConnector, Client, util } from 'undici'

import { partialSuccess, readStatus } from '../data/otlp_reply.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { checkClientTls, loadClientTls } from '../pipeline/client_tls.ts'
import { exporter, Permanent } from '../pipeline/component.ts'
import { failure, merged, otlpClient, reportPartial } from '../pipeline/otlp_client.ts'
import { text } from '../pipeline/schema.ts'
import { checkSending } from '../pipeline/sending.ts'

const PROTOBUF = 'application/x-protobuf'
const RETRYABLE = new Set([429, 502, 503, 504])
/** No OTLP answer is larger; of another server's page, the beginning is enough. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024
const SHOWN_BYTES = 200

export default exporter({
  type: 'otlp_http',
  summary: 'Passes spans and log records on to an OTLP server over HTTP, as protobuf.',
  signals: ['traces', 'logs'],
  aliases: ['otlphttp'],
  config: {
    endpoint: text('URL of the server; `/v1/traces` and `/v1/logs` are added to it.', { default: null, example: 'http://collector:4318' }),
    traces_endpoint: text('Whole URL for spans.', { default: null }),
    logs_endpoint: text('Whole URL for log records.', { default: null }),
    ...otlpClient,
  },
  check(config) {
    const urls = (['endpoint', 'traces_endpoint', 'logs_endpoint'] as const).filter((option) => config[option] !== null)
    const wrong = urls.filter((option) => !isHttpUrl(config[option]!))
    return [
      ...(urls.length === 0 ? [{ message: 'at least one endpoint must be specified' }] : []),
      ...wrong.map((option) => ({
        path: [option],
        message: `must be a URL, e.g. http://collector:4318 (got ${JSON.stringify(config[option])})`,
      })),
      ...checkClientTls(config.tls, 'tls'),
      ...checkSending(config),
    ]
  },

  create({ endpoint, traces_endpoint, logs_endpoint, headers, compression, tls }, context) {
    const urls = { traces: urlFor(traces_endpoint, endpoint, '/v1/traces'), logs: urlFor(logs_endpoint, endpoint, '/v1/logs') }
    const fixed = {
      'content-type': PROTOBUF,
      ...(compression === 'gzip' && { 'content-encoding': 'gzip' }),
      ...headers,
    }
    let ours: ConnectionOptions = {}
    /** By origin, those that wait for a request. */
    const idle = new Map<string, Connection[]>()
    const open = new Set<Connection>()

    async function post(url: URL, body: Buffer, signal: AbortSignal): Promise<Answer> {
      const waiting = idle.get(url.origin) ?? []
      idle.set(url.origin, waiting)
      const connection = waiting.pop() ?? connectTo(url.origin, ours)
      open.add(connection)
      const answer = await ask(connection, url, fixed, body, signal).catch((error: unknown) => {
        close(connection)
        throw error
      })
      // Whoever answers early must not be sent the rest later: its memory may hold something else by then.
      if (answer.cutOff || connection.isSending()) close(connection)
      else waiting.push(connection)
      return answer
    }

    function close(connection: Connection): void {
      open.delete(connection)
      connection.client.destroy(() => {})
    }

    return {
      async start() {
        ours = await loadClientTls(tls)
      },
      async export(batches: readonly SpanBatch[], signal: 'traces' | 'logs', abort) {
        const url = urls[signal]
        if (!url) throw new Permanent(`either endpoint or ${signal}_endpoint must be specified`)
        const body = merged(batches)
        const answer = await post(url, compression === 'gzip' ? await promisify(gzip)(body) : body, abort)
        const { status, headers, bytes } = answer
        const inProtobuf = headers['content-type']?.toString().startsWith(PROTOBUF)
        if (status < 200 || status > 299) throw failureOf(url, answer, inProtobuf ? readStatus(bytes).message : shown(bytes))
        if (inProtobuf) reportPartial(partialSuccess(signal, bytes), signal, context)
      },
      async shutdown() {
        for (const connection of open) close(connection)
        idle.clear()
      },
    }
  },
})

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
}

function urlFor(whole: string | null, endpoint: string | null, path: string): URL | undefined {
  if (whole !== null) return new URL(whole)
  return endpoint === null ? undefined : new URL(endpoint.replace(/\/$/, '') + path)
}

/** One request at a time. */
interface Connection {
  readonly client: Client
  /** Whether some of what it was given to send is not sent yet. */
  isSending(): boolean
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly bytes: Buffer
  /** Whether more came than anybody reads. */
  readonly cutOff: boolean
}

/** Without limits of its own: an attempt has one, which the queue sees to. */
function connectTo(origin: string, ours: ConnectionOptions): Connection {
  const connect = buildConnector({ ...ours, timeout: 0 } as buildConnector.BuildOptions)
  let socket: Socket | null = null
  const client = new Client(origin, {
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (options, callback) =>
      connect(options, (...result) => {
        socket = result[1]
        callback(...result)
      }),
  })
  return { client, isSending: () => socket !== null && socket.writableLength > 0 }
}

/** Resolves with the answer, whatever its status. */
function ask({ client }: Connection, url: URL, headers: Record<string, string>, body: Buffer, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const chunks: Buffer[] = []
    let answer = { status: 0, headers: {} as Answer['headers'] }
    let size = 0
    const end = (cutOff: boolean) => resolve({ bytes: Buffer.concat(chunks), cutOff, ...answer })
    const stop = () => void client.destroy(signal.reason as Error, () => {})
    signal.addEventListener('abort', stop)
    client.dispatch(
      { path: url.pathname + url.search, method: 'POST', headers, body },
      {
        onConnect() {},
        onHeaders(status, raw) {
          answer = { status, headers: util.parseHeaders(raw) as Answer['headers'] }
          return true
        },
        onData(chunk) {
          size += chunk.length
          if (size > MAX_ANSWER_BYTES) end(true)
          else chunks.push(chunk)
          return true
        },
        onComplete() {
          signal.removeEventListener('abort', stop)
          end(false)
        },
        onError(error) {
          signal.removeEventListener('abort', stop)
          reject(error)
        },
      },
    )
  })
}

const shown = (bytes: Buffer): string => bytes.toString('utf8', 0, SHOWN_BYTES).trim()

function failureOf(url: URL, { status, headers }: Answer, said: string): Error {
  const message = `${url.origin}${url.pathname} answered ${status}${said && `: ${said}`}`
  return failure(message, RETRYABLE.has(status), retryAfter(headers['retry-after']?.toString()))
}

/** Seconds, or a date. */
function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
