// The OTLP receiver: spans and log records from any OpenTelemetry SDK or Collector. An answer means
// that the pipelines have taken the data for good; until then the client waits, so no queue grows here.

import { admission, createAdmission } from '../pipeline/admission.ts'
import { auth, authenticating } from '../pipeline/auth.ts'
import { receiver } from '../pipeline/component.ts'
import { cors, createCors } from '../pipeline/cors.ts'
import { checkEndpoint, parseEndpoint, type Address } from '../pipeline/listen.ts'
import { serveGrpc, TRANSPORTS } from '../pipeline/otlp_grpc.ts'
import { serveHttp } from '../pipeline/otlp_http.ts'
import { taking } from '../pipeline/otlp_take.ts'
import { duration, group, number, oneOf, text } from '../pipeline/schema.ts'
import { checkTls, loadTls, tls, type TlsConfig } from '../pipeline/tls.ts'

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
            tls,
            auth,
            max_recv_msg_size_mib: number('Largest message, in MiB, after decompression.', { default: 64 }),
            transport: oneOf(
              TRANSPORTS,
              'What speaks HTTP/2: `own`, a server made for requests of one message, which takes a fraction of the CPU, or `grpc-js`, the ' +
                'library of the gRPC project. `auto` is `own`.',
              { default: 'auto' },
            ),
          },
          'OTLP over gRPC; on when the key is there, even without a value.',
          { default: null },
        ),
        http: group(
          {
            endpoint: text('Address and port to listen on.', { default: 'localhost:4318' }),
            tls,
            auth,
            cors,
            traces_url_path: text('Path that takes spans.', { default: '/v1/traces' }),
            logs_url_path: text('Path that takes log records.', { default: '/v1/logs' }),
            max_request_body_size: number('Largest body, in bytes, after decompression.', {
              default: 64 * MIB,
              min: 1,
              max: MAX_MIB * MIB,
              integer: true,
            }),
            read_header_timeout: duration('How long the headers of a request may take to come.', { default: '1m', min: 1 }),
            read_timeout: duration('How long a whole request may take to come.', { default: '1m', min: 1 }),
          },
          'OTLP over HTTP, protobuf and JSON; on when the key is there, even without a value.',
          { default: null },
        ),
      },
      'The protocols to listen for.',
      { default: { grpc: {}, http: {} } },
    ),
    admission,
  },

  check({ protocols: { grpc, http }, admission: { request_limit_mib } }) {
    if (!grpc && !http) return [{ message: 'must specify at least one protocol when using the OTLP receiver' }]
    const problems = []
    for (const [protocol, options] of Object.entries({ grpc, http })) {
      if (!options) continue
      problems.push(...checkEndpoint(options.endpoint, 'protocols', protocol, 'endpoint'))
      problems.push(...checkTls(options.tls, 'protocols', protocol, 'tls'))
    }
    if (http && http.traces_url_path === http.logs_url_path) {
      problems.push({ path: ['protocols', 'http', 'logs_url_path'], message: 'must differ from traces_url_path' })
    }
    const mib = grpc?.max_recv_msg_size_mib ?? 1
    if (!(mib >= 1 && mib <= MAX_MIB)) {
      const message = `invalid max_recv_msg_size_mib value, must be between 1 and ${MAX_MIB}: ${mib}`
      problems.push({ path: ['protocols', 'grpc', 'max_recv_msg_size_mib'], message })
    }
    const largest = Math.max(mib, (http?.max_request_body_size ?? 0) / MIB)
    if (request_limit_mib < largest) {
      problems.push({
        path: ['admission', 'request_limit_mib'],
        message: `must hold the largest message, so at least ${Math.ceil(largest)}`,
      })
    }
    return problems
  },

  create({ protocols: { grpc, http }, admission }, context) {
    const { id, log, count } = context
    const running: (() => Promise<void> | void)[] = []

    async function shutdown(): Promise<void> {
      await Promise.all(running.splice(0).map((stop) => stop()))
    }

    async function serverTls(config: TlsConfig | null) {
      const loaded = config && (await loadTls(config, context))
      if (loaded) running.push(loaded.stop)
      return loaded ?? undefined
    }

    async function serve(protocol: 'grpc' | 'http', endpoint: string, listen: (bind: Bind) => Promise<Server>): Promise<void> {
      const address = parseEndpoint(endpoint)!
      const server = await listen({ address, option: `receivers::${id}::protocols::${protocol}::endpoint` })
      running.push(server.stop)
      log.info(`Starting ${protocol.toUpperCase()} server`, { endpoint: `${address.host}:${server.port}` })
    }

    return {
      async start(next) {
        const signals = SIGNALS.filter((signal) => next[signal])
        const limited = (transport: string) => (limit: string) => count('receiver_limit_hits', 1, { transport, limit })
        const lease = createAdmission(admission, () => count('receiver_limit_hits', 1, { limit: 'request_limit_mib' }))
        try {
          if (grpc) {
            const options = {
              transport: grpc.transport,
              tls: await serverTls(grpc.tls),
              authenticate: authenticating(grpc.auth, context, 'grpc'),
              maxMessageBytes: grpc.max_recv_msg_size_mib * MIB,
              maxBytesInFlight: admission.request_limit_mib * MIB,
              signals,
              onError: (error: unknown) => log.error('The gRPC server failed; one connection was lost', { error }),
              limited: limited('grpc'),
            }
            await serve('grpc', grpc.endpoint, (bind) => serveGrpc({ ...options, ...bind }, taking(next, 'grpc', lease, context)))
          }
          if (http) {
            const options = {
              tls: await serverTls(http.tls),
              authenticate: authenticating(http.auth, context, 'http'),
              allowOrigin: http.cors ? createCors(http.cors) : undefined,
              maxBodyBytes: http.max_request_body_size,
              maxBytesInFlight: admission.request_limit_mib * MIB,
              paths: new Map(signals.map((signal) => [absolute(http[`${signal}_url_path`]), signal])),
              headersTimeout: http.read_header_timeout,
              requestTimeout: http.read_timeout,
              limited: limited('http'),
            }
            await serve('http', http.endpoint, (bind) => serveHttp({ ...options, ...bind }, taking(next, 'http', lease, context).take))
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
