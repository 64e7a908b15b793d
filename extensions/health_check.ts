// Says over HTTP whether Leyden works: for load balancers, container orchestrators and `curl`.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'

import { extension } from '../pipeline/component.ts'
import { createHttpServer } from '../pipeline/http_server.ts'
import { checkEndpoint, close, listen, parseEndpoint } from '../pipeline/listen.ts'
import { group, text } from '../pipeline/schema.ts'
import { checkTls, loadTls, tls, type ServerTls } from '../pipeline/tls.ts'

export default extension({
  type: 'health_check',
  summary: 'Answers 200 while every pipeline runs and no component reports a problem, else 503.',
  config: {
    endpoint: text('Address and port to listen on.', { default: 'localhost:13133' }),
    path: text('Path that answers.', { default: '/' }),
    tls,
    response_body: group(
      {
        healthy: text('Answer while healthy; null: a JSON object.', { default: null }),
        unhealthy: text('Answer while not; null: a JSON object.', { default: null }),
      },
      'What to answer instead of the JSON object.',
      { default: null },
    ),
  },

  check({ endpoint, path, tls }) {
    const problems = [...checkEndpoint(endpoint, 'endpoint'), ...checkTls(tls, 'tls')]
    if (!path.startsWith('/')) problems.push({ path: ['path'], message: `must start with / (got ${JSON.stringify(path)})` })
    return problems
  },

  create({ endpoint, path, tls, response_body }, context) {
    let upSince: Date | undefined
    let loaded: ServerTls | undefined
    let server: Server | undefined

    function answer(request: IncomingMessage, response: ServerResponse): void {
      if (request.url?.split('?')[0] !== path) return void response.writeHead(404).end()
      const problems = context.problems()
      const healthy = upSince !== undefined && problems.length === 0
      const said = healthy ? response_body?.healthy : response_body?.unhealthy
      response.writeHead(healthy ? 200 : 503, { 'content-type': said == null ? 'application/json' : 'text/plain' })
      response.end(
        said ??
          JSON.stringify({
            status: healthy ? 'Server available' : 'Server not available',
            upSince: (upSince ?? NEVER).toISOString(),
            uptime: upSince ? `${(Date.now() - upSince.getTime()) / 1_000}s` : '',
            ...(problems.length > 0 && { problems }),
          }),
      )
    }

    return {
      async start() {
        if (tls) loaded = await loadTls(tls, context)
        server = createHttpServer({ tls: loaded }, answer)
        try {
          const { port } = await listen(server, parseEndpoint(endpoint)!, `extensions::${context.id}::endpoint`)
          context.log.info('Health check is served', { port })
        } catch (error) {
          loaded?.stop()
          throw error
        }
      },
      ready() {
        upSince = new Date()
      },
      notReady() {
        upSince = undefined
      },
      async shutdown() {
        loaded?.stop()
        if (server) await close(server)
      },
    }
  },
})

/** Go's zero time, as the Collector writes it. */
const NEVER = new Date(-62_135_596_800_000)
