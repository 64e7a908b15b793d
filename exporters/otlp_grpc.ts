// Passes spans and log records on by OTLP over gRPC, as the bytes in which they came.

import { compressionAlgorithms, Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js'

import { partialSuccess, readStatus } from '../data/otlp_reply.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { checkClientTls, loadClientTls } from '../pipeline/client_tls.ts'
import { exporter } from '../pipeline/component.ts'
import { failure, merged, otlpClient, reportPartial } from '../pipeline/otlp_client.ts'
import { text } from '../pipeline/schema.ts'
import { checkSending } from '../pipeline/sending.ts'

const METHOD = {
  traces: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
  logs: '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
} as const

/** RESOURCE_EXHAUSTED is not among them: it is retried only when the server says when. */
const RETRYABLE = new Set([
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.ABORTED,
  status.OUT_OF_RANGE,
  status.UNAVAILABLE,
  status.DATA_LOSS,
])

/** A server that was away is found again within seconds; the library's own limit is two minutes. */
const RECONNECT_MS = { first: 250, longest: 5_000 }

export default exporter({
  type: 'otlp_grpc',
  summary: 'Passes spans and log records on to an OTLP server over gRPC.',
  signals: ['traces', 'logs'],
  aliases: ['otlp'],
  config: {
    endpoint: text('`host:port` of the server; `http://` before it means plain text, `https://` TLS, whatever `tls` says.', {
      example: 'collector:4317',
    }),
    ...otlpClient,
  },
  check: (config) => [...checkTarget(config.endpoint), ...checkClientTls(config.tls, 'tls'), ...checkSending(config)],

  create({ endpoint, headers, compression, tls, timeout }, context) {
    const { scheme, target } = parseTarget(endpoint)!
    const plain = scheme === 'http' || (scheme === undefined && tls.insecure)
    const metadata = new Metadata()
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
    let client: Client | undefined

    async function connect(): Promise<Client> {
      const { ca, key, cert, servername, rejectUnauthorized } = await loadClientTls(tls)
      const secure = () => credentials.createSsl(pem(ca), pem(key), pem(cert), { rejectUnauthorized: rejectUnauthorized! })
      return new Client(target, plain ? credentials.createInsecure() : secure(), {
        'grpc.default_compression_algorithm': compressionAlgorithms[compression === 'gzip' ? 'gzip' : 'identity'],
        'grpc.initial_reconnect_backoff_ms': RECONNECT_MS.first,
        'grpc.max_reconnect_backoff_ms': RECONNECT_MS.longest,
        'grpc.enable_retries': 0, // the queue retries
        ...(servername && { 'grpc.ssl_target_name_override': servername }),
      })
    }

    /** Resolves with the server's response. */
    function send(signal: 'traces' | 'logs', body: Buffer): Promise<Buffer> {
      const deadline = timeout > 0 ? Date.now() + timeout : Infinity
      return new Promise((resolve, reject) => {
        client!.makeUnaryRequest(METHOD[signal], asIs, asIs, body, metadata, { deadline }, (error, response) =>
          error ? reject(failureOf(error)) : resolve(response!),
        )
      })
    }

    return {
      async start() {
        client = await connect()
      },
      async export(batches: readonly SpanBatch[], signal: 'traces' | 'logs') {
        reportPartial(partialSuccess(signal, await send(signal, merged(batches))), signal, context)
      },
      async shutdown() {
        client?.close()
        client = undefined
      },
    }
  },
})

const asIs = (bytes: Buffer): Buffer => bytes
const pem = (file: unknown): Buffer | null => (file as Buffer | undefined) ?? null

/** Also what gRPC itself resolves: `dns:///host:port`, `unix:/path`. */
function parseTarget(endpoint: string): { scheme: string | undefined; target: string } | undefined {
  const match = /^(?:(https?):\/\/)?((?:[^\s/:[\]]+|\[[0-9a-fA-F:]+\]):\d{1,5}|(?:dns|unix):\S+)\/?$/.exec(endpoint)
  return match ? { scheme: match[1], target: match[2]! } : undefined
}

function checkTarget(endpoint: string) {
  if (parseTarget(endpoint)) return []
  return [{ path: ['endpoint'], message: `must be host:port, e.g. collector:4317 (got ${JSON.stringify(endpoint)})` }]
}

function failureOf({ code, details, metadata }: ServiceError): Error {
  const [bytes] = metadata?.get('grpc-status-details-bin') ?? []
  const asked = Buffer.isBuffer(bytes) ? readStatus(bytes).retryAfterMs : undefined
  const retryable = RETRYABLE.has(code) || (code === status.RESOURCE_EXHAUSTED && asked !== undefined)
  return failure(`${status[code]}: ${details}`, retryable, asked)
}
