// An endpoint that speaks OpenAI's API: agents point their base URL here. It answers by a policy of ours, passes requests on to another
// server, or says what a script says; every call becomes a span.

import { createEndpoint } from '../endpoint/endpoint.ts'
import { engineProblems, modelFields, openModels } from '../endpoint/engines/options.ts'
import { createLimits } from '../endpoint/limits.ts'
import { createRecorder } from '../endpoint/recorder.ts'
import { admission, createAdmission } from '../pipeline/admission.ts'
import { auth, authenticating } from '../pipeline/auth.ts'
import { receiver, type Outputs } from '../pipeline/component.ts'
import { onNode, type HttpService } from '../pipeline/http_exchange.ts'
import { createHttpServer } from '../pipeline/http_server.ts'
import { checkEndpoint, close, listen, parseEndpoint } from '../pipeline/listen.ts'
import type { Lender } from '../pipeline/message_memory.ts'
import { createPlainServer } from '../pipeline/plain_server.ts'
import { createPool } from '../pipeline/pool.ts'
import { duration, group, map, number, text } from '../pipeline/schema.ts'
import { checkTls, loadTls, tls } from '../pipeline/tls.ts'
import { policiesOf } from '../storage/policies.ts'
import type { Storage } from '../storage/storage.ts'

const MIB = 1024 * 1024
const TRIM_MS = 10_000

/** A body is passed on, and may still be on its way when it is answered. */
const BODIES: Lender = { take: (bytes) => Buffer.allocUnsafe(bytes), give: () => {}, isHalfFree: (bytes) => bytes <= MIB }

export default receiver({
  type: 'openai',
  summary: "Serves models by OpenAI's API: a policy under training, any other server, or a script. Each call becomes a span.",
  signals: ['traces'],
  config: {
    endpoint: text('Address and port to listen on.', { default: 'localhost:4000' }),
    tls,
    auth,
    models: map(group(modelFields, 'What answers for a model.'), 'Models by the name that clients ask for.', {
      example: { qwen: { engine: 'upstream', url: 'http://localhost:8000/v1' } },
    }),
    storage: text('The clickhouse_storage extension that knows the versions of policies.', { default: 'clickhouse_storage' }),
    max_request_body_size: number('Largest body, in bytes, after decompression.', { default: 16 * MIB, min: 1, integer: true }),
    admission,
    limits: group(
      {
        max_requests: number('Most requests that are answered at the same time.', { default: 1_024, min: 1, integer: true }),
        max_requests_per_key: number('The same for each key, where `auth` asks for one; 0: no limit.', {
          default: 0,
          min: 0,
          integer: true,
        }),
        requests_per_minute_per_key: number('How many each key may send in a minute; 0: no limit.', { default: 0, min: 0, integer: true }),
      },
      'What is answered with 429 or 503, and the time to come again.',
    ),
    queue_mib: number('MiB of calls that wait to be stored while the store is away; those beyond are answered, counted and lost.', {
      default: 64,
      min: 1,
    }),
    drain_timeout: duration('How long a stopping endpoint waits for answers under way.', { default: '20s' }),
  },
  check: ({ endpoint, tls, models }) => [...checkEndpoint(endpoint, 'endpoint'), ...checkTls(tls, 'tls'), ...engineProblems(models)],

  create(options, context) {
    const { id, log, count, gauge } = context
    const running: (() => Promise<void> | void)[] = []

    async function start({ traces }: Outputs): Promise<void> {
      const address = parseEndpoint(options.endpoint)!
      const secured = options.tls && (await loadTls(options.tls, context))
      if (secured) running.push(secured.stop)
      const models = openModels(options.models, () => policiesOf(context.extension<Storage>(options.storage).client), context)
      running.push(async () => {
        await Promise.all([...models.values()].map(({ engine }) => engine.close?.()))
      })
      for (const { engine } of models.values()) await engine.start?.()
      const limits = createLimits(options.limits)
      const answering = () => limits.running > 0
      const recorder = createRecorder(traces ?? (async () => {}), options.queue_mib * MIB, answering, context)
      gauge('leyden_endpoint_requests', () => limits.running)
      const limited = (limit: string) => count('receiver_limit_hits', 1, { transport: 'http', limit })
      let isStopping = false
      const serve: HttpService = (request, response) => endpoint.serve(request, response)
      const others = createHttpServer(
        { tls: secured ?? undefined, limited },
        onNode(serve, () => isStopping),
      )
      /** Of what comes before it can be read: behind a request that is under way, or before it is known who sends it. */
      const pool = createPool(options.admission.request_limit_mib * MIB, () => limited('bytes_in_flight'))
      const trimmer = setInterval(pool.trim, TRIM_MS).unref()
      const paths = { has: (path: string) => endpoint.isCalled(path) }
      const plain = secured ? undefined : createPlainServer({ others, paths, serve, pool, bodies: BODIES, limited })
      const { port } = await listen(plain?.server ?? others, address, `receivers::${id}::endpoint`)
      const endpoint = createEndpoint({
        ...{ models, limits, recorder, log },
        authenticate: authenticating(options.auth, context, 'http'),
        lease: createAdmission(options.admission, () => limited('request_limit_mib')),
        maxBodyBytes: options.max_request_body_size,
        server: { host: address.host, port },
      })
      running.push(async () => {
        isStopping = true
        clearInterval(trimmer)
        const closed = plain ? plain.close() : close(others)
        await endpoint.drain(options.drain_timeout)
        // What is left are connections that ask for nothing.
        others.closeAllConnections()
        await closed
        await recorder.drain(options.drain_timeout)
      })
      log.info('Starting HTTP server', { endpoint: `${address.host}:${port}` })
    }

    async function shutdown(): Promise<void> {
      for (const end of running.splice(0).reverse()) await end()
    }

    return { start, shutdown }
  },
})
