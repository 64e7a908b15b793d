// The OTLP receiver: spans and log records from any OpenTelemetry SDK or Collector. An answer means
// that the pipelines have taken the data for good; until then the client waits, so no queue grows here.

import { fromJson, parseJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import { receiver, Refused, type Context, type Outputs } from '../pipeline/component.ts'
import { checkEndpoint, parseEndpoint, type Address } from '../pipeline/listen.ts'
import { serveGrpc } from '../pipeline/otlp_grpc.ts'
import { serveHttp } from '../pipeline/otlp_http.ts'
import type { Take } from '../pipeline/otlp_server.ts'
import { group, number, text } from '../pipeline/schema.ts'

const SIGNALS = ['traces', 'logs'] as const
const MIB = 1024 * 1024
/** Node holds no larger Buffer, and batches keep offsets in 32 bits. */
const MAX_MIB = 2047

export default receiver({
  type: 'otlp',
  summary: 'Takes spans and log records by OTLP: gRPC, HTTP with protobuf, HTTP with JSON.',
  signals: SIGNALS,
  config: {
    protocols: group(
      {
        grpc: group(
          {
            endpoint: text('Address and port to listen on.', { default: 'localhost:4317' }),
            max_recv_msg_size_mib: number('Largest message, in MiB, after decompression.', { default: 64 }),
          },
          'OTLP over gRPC; on when the key is there, even without a value.',
          { default: null },
        ),
        http: group(
          {
            endpoint: text('Address and port to listen on.', { default: 'localhost:4318' }),
            traces_url_path: text('Path that takes spans.', { default: '/v1/traces' }),
            logs_url_path: text('Path that takes log records.', { default: '/v1/logs' }),
            max_request_body_size: number('Largest body, in bytes, after decompression.', {
              default: 64 * MIB,
              min: 1,
              max: MAX_MIB * MIB,
              integer: true,
            }),
          },
          'OTLP over HTTP, protobuf and JSON; on when the key is there, even without a value.',
          { default: null },
        ),
      },
      'The protocols to listen for.',
      { default: { grpc: {}, http: {} } },
    ),
  },

  check({ protocols: { grpc, http } }) {
    if (!grpc && !http) return [{ message: 'must specify at least one protocol when using the OTLP receiver' }]
    const problems = []
    if (grpc) problems.push(...checkEndpoint(grpc.endpoint, 'protocols', 'grpc', 'endpoint'))
    if (http) problems.push(...checkEndpoint(http.endpoint, 'protocols', 'http', 'endpoint'))
    if (http && http.traces_url_path === http.logs_url_path) {
      problems.push({ path: ['protocols', 'http', 'logs_url_path'], message: 'must differ from traces_url_path' })
    }
    const mib = grpc?.max_recv_msg_size_mib ?? 1
    if (!(mib >= 1 && mib <= MAX_MIB)) {
      const message = `invalid max_recv_msg_size_mib value, must be between 1 and ${MAX_MIB}: ${mib}`
      problems.push({ path: ['protocols', 'grpc', 'max_recv_msg_size_mib'], message })
    }
    return problems
  },

  create({ protocols: { grpc, http } }, context) {
    const { id, log } = context
    const servers: { stop(): Promise<void> }[] = []

    async function shutdown(): Promise<void> {
      await Promise.all(servers.splice(0).map((server) => server.stop()))
    }

    async function serve(protocol: 'grpc' | 'http', endpoint: string, listen: (bind: Bind) => Promise<Server>): Promise<void> {
      const address = parseEndpoint(endpoint)!
      const server = await listen({ address, option: `receivers::${id}::protocols::${protocol}::endpoint` })
      servers.push(server)
      log.info(`Starting ${protocol.toUpperCase()} server`, { endpoint: `${address.host}:${server.port}` })
    }

    return {
      async start(next) {
        const signals = SIGNALS.filter((signal) => next[signal])
        try {
          if (grpc) {
            const maxMessageBytes = grpc.max_recv_msg_size_mib * MIB
            await serve('grpc', grpc.endpoint, (bind) => serveGrpc({ ...bind, maxMessageBytes, signals }, taking(next, 'grpc', context)))
          }
          if (http) {
            const paths = new Map(signals.map((signal) => [absolute(http[`${signal}_url_path`]), signal]))
            const maxBodyBytes = http.max_request_body_size
            await serve('http', http.endpoint, (bind) => serveHttp({ ...bind, maxBodyBytes, paths }, taking(next, 'http', context)))
          }
        } catch (error) {
          await shutdown()
          throw error
        }
      },
      shutdown,
    }
  },
})

/** A path may be written without its first slash. */
const absolute = (path: string) => (path.startsWith('/') ? path : `/${path}`)

type Bind = { readonly address: Address; readonly option: string }
type Server = { readonly port: number; stop(): Promise<void> }

/** What happens to a request, whatever it came by. Received is accepted plus refused, exactly. */
function taking(next: Outputs, transport: 'grpc' | 'http', { log, count }: Context): Take {
  return async (signal, encoding, read) => {
    const items = signal === 'traces' ? 'spans' : 'log_records'
    let accepted = 0
    let refused = 0
    let outcome = 'failure'
    try {
      const body = await read()
      const { batch, rejected } = scan(signal, encoding === 'json' ? fromJson(signal, parseJson(body.toString())) : body)
      refused = rejected.length + batch.count
      outcome = 'refused'
      if (batch.count > 0) await next[signal]!([batch])
      refused = rejected.length
      accepted = batch.count
      outcome = 'success'
      return rejected
    } catch (error) {
      // Back-pressure and bad requests are everyday; anything else is a fault behind us, and the client may not tell.
      if (outcome === 'refused' && !(error instanceof Refused)) log.warn('The pipeline failed to take a request', { transport, error })
      throw error
    } finally {
      count(`receiver_accepted_${items}`, accepted, { transport })
      count(`receiver_refused_${items}`, refused, { transport })
      count('receiver_requests', 1, { transport, outcome })
    }
  }
}
