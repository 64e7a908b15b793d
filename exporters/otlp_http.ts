// Passes spans and log records on by OTLP over HTTP, as the protobuf bytes in which they came.

import { request as httpRequest, Agent as HttpAgent, type IncomingMessage } from 'node:http'
import { request as httpsRequest, Agent as HttpsAgent } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'

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
    const plainAgent = new HttpAgent({ keepAlive: true })
    let tlsAgent: HttpsAgent | undefined

    /** Resolves with the answer, whatever its status, and its body. */
    function post(url: URL, body: Buffer, signal: AbortSignal): Promise<{ answer: IncomingMessage; bytes: Buffer }> {
      return new Promise((resolve, reject) => {
        const options = { method: 'POST', headers: { ...fixed, 'content-length': body.length }, signal }
        const sent =
          url.protocol === 'https:'
            ? httpsRequest(url, { ...options, agent: tlsAgent! })
            : httpRequest(url, { ...options, agent: plainAgent })
        const reply = async (answer: IncomingMessage) => ({ answer, bytes: await read(answer) })
        // Whoever answers early must not be sent the rest later: its memory may hold something else by then.
        const cutOff = () => void (sent.writableFinished || sent.destroy())
        sent
          .on('response', (answer) => resolve(reply(answer).finally(cutOff)))
          .on('error', reject)
          .end(body)
      })
    }

    return {
      async start() {
        tlsAgent = new HttpsAgent({ keepAlive: true, ...(await loadClientTls(tls)) })
      },
      async export(batches: readonly SpanBatch[], signal: 'traces' | 'logs', abort) {
        const url = urls[signal]
        if (!url) throw new Permanent(`either endpoint or ${signal}_endpoint must be specified`)
        const body = merged(batches)
        const { answer, bytes } = await post(url, compression === 'gzip' ? await promisify(gzip)(body) : body, abort)
        const inProtobuf = answer.headers['content-type']?.startsWith(PROTOBUF)
        if (answer.statusCode! < 200 || answer.statusCode! > 299)
          throw failureOf(url, answer, inProtobuf ? readStatus(bytes).message : shown(bytes))
        if (inProtobuf) reportPartial(partialSuccess(signal, bytes), signal, context)
      },
      async shutdown() {
        plainAgent.destroy()
        tlsAgent?.destroy()
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

async function read(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_ANSWER_BYTES) break
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const shown = (bytes: Buffer): string => bytes.toString('utf8', 0, SHOWN_BYTES).trim()

function failureOf(url: URL, { statusCode, headers }: IncomingMessage, said: string): Error {
  const message = `${url.origin}${url.pathname} answered ${statusCode}${said && `: ${said}`}`
  return failure(message, RETRYABLE.has(statusCode!), retryAfter(headers['retry-after']))
}

/** Seconds, or a date. */
function retryAfter(header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
