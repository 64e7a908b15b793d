// What stands around the endpoint when it is measured, each in a process of its own: `endpoint_peer.js upstream` answers every request at
// once, `endpoint_peer.js proxy <port>` passes requests on to it and records nothing, `endpoint_peer.js pipeline` acknowledges spans and does
// nothing with them. Each sends its port to its parent.

import { Agent, createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const WORDS = 20
/** Longer than any of it waits for its turn: a connection that is closed just when it is used again ends a request. */
const KEEP_MS = 600_000
const text = Array.from({ length: WORDS }, (_, i) => `word${i} `)
const head = { id: 'chatcmpl-bench', created: 1, model: 'bench' }
const usage = { prompt_tokens: 200, completion_tokens: WORDS, total_tokens: 200 + WORDS }
const whole = Buffer.from(
  JSON.stringify({
    ...{ ...head, object: 'chat.completion', usage },
    choices: [{ index: 0, message: { role: 'assistant', content: text.join('') }, finish_reason: 'stop' }],
  }),
)
const chunks = [...text.map((content) => chunk({ content }, null)), chunk({}, 'stop'), 'data: [DONE]\n\n']

function chunk(delta: object, finish_reason: string | null): string {
  const choices = [{ index: 0, delta, finish_reason }]
  return `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices })}\n\n`
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const streamed = request.headers['user-agent'] === 'stream'
  request.resume().on('end', () => {
    if (!streamed) return response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length }).end(whole)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of chunks) response.write(event)
    response.end()
  })
}

function passOn(port: number): (request: IncomingMessage, response: ServerResponse) => void {
  const agent = new Agent({ keepAlive: true })
  return (request, response) => {
    const { method, url: path, headers } = request
    const sent = send({ agent, port, host: '127.0.0.1', method, path, headers }, (reply) => {
      response.writeHead(reply.statusCode!, reply.headers)
      reply.pipe(response)
    })
    request.pipe(sent.on('error', () => response.destroy()))
  }
}

function acknowledge(request: IncomingMessage, response: ServerResponse): void {
  request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf', 'content-length': 0 }).end())
}

const [, , kind, port] = process.argv
const server = createServer(
  { keepAliveTimeout: KEEP_MS },
  kind === 'upstream' ? answer : kind === 'pipeline' ? acknowledge : passOn(Number(port)),
)
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
