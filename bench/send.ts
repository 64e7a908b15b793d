// The two ways to send a request of the load: OTLP over HTTP and over gRPC, as bytes, so that sending costs little.

import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'

import * as grpc from '@grpc/grpc-js'

export interface Sender {
  /** Resolves when the request is acknowledged. */
  send(body: Buffer): Promise<void>
  close(): void
}

export function httpSender(url: string, connections: number): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  return {
    async send(body) {
      const headers = { 'content-type': 'application/x-protobuf', 'content-length': body.length }
      const sent = request(`${url}/v1/traces`, { method: 'POST', agent, headers })
      sent.end(body)
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      if (response.statusCode !== 200) throw new Error(`HTTP ${response.statusCode}`)
    },
    close: () => agent.destroy(),
  }
}

const CHANNELS = 4
export const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'

export function grpcSender(target: string): Sender {
  const options = { 'grpc.use_local_subchannel_pool': 1, 'grpc.max_send_message_length': -1 }
  const clients = Array.from({ length: CHANNELS }, () => new grpc.Client(target, grpc.credentials.createInsecure(), options))
  const same = (bytes: Buffer) => bytes
  let turn = 0
  return {
    send(body) {
      const client = clients[turn++ % CHANNELS]!
      return new Promise((resolve, reject) => {
        client.makeUnaryRequest(EXPORT, same, same, body, (error) => (error ? reject(error) : resolve()))
      })
    },
    close: () => clients.forEach((client) => client.close()),
  }
}
