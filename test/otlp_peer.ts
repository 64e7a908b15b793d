// The other end of an OTLP exporter in tests: a Leyden, or a server that answers as told. And the exporter with its queue.

import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { Metadata, Server, ServerCredentials, type handleUnaryCall } from '@grpc/grpc-js'
import { onTestFinished } from 'vitest'

import { detached, type SpanBatch } from '../data/span_batch.ts'
import type { Component, Signal } from '../pipeline/component.ts'
import { createSender } from '../pipeline/queue.ts'
import type { Sending } from '../pipeline/sending.ts'
import { readConfig } from '../pipeline/schema.ts'
import otlp from '../receivers/otlp.ts'
import { authority, signedBy, written } from './certificates.ts'
import { configure, testContext, type TestContext } from './conformance.ts'

/** Our own receiver on free ports. `take` is what stands behind it; unless told, it keeps everything. */
export async function leydenPeer(take?: (items: readonly SpanBatch[]) => Promise<void>) {
  const context = testContext({ id: 'otlp', kind: 'receiver' })
  const receiver = configure(otlp, { protocols: { grpc: { endpoint: 'localhost:0' }, http: { endpoint: 'localhost:0' } } }, context)
  const batches: SpanBatch[] = []
  const keep = async (items: readonly SpanBatch[]) => void batches.push(...items.map(detached))
  await receiver.start({ traces: take ?? keep, logs: take ?? keep })
  onTestFinished(() => receiver.shutdown!())
  const endpoint = (server: string) => String(context.lines.find(({ text }) => text === `info Starting ${server} server`)!.fields!.endpoint)
  return { batches, grpc: endpoint('GRPC'), http: `http://${endpoint('HTTP')}` }
}

/** Of a server that only takes clients with a certificate of the same authority. */
export interface PeerTls {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** An HTTP server that answers as told, and the paths it was asked for. */
export async function httpPeer(answer: (request: IncomingMessage, response: ServerResponse) => void, tls?: PeerTls) {
  const asked: string[] = []
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    asked.push(request.url!)
    request.resume().on('end', () => answer(request, response))
  }
  const server = tls ? createHttpsServer({ ...tls, requestCert: true }, listener) : createHttpServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  return { asked, url: `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const asIs = (bytes: Buffer) => bytes

/** A gRPC server for spans that answers as told. */
export async function grpcPeer(exporting: handleUnaryCall<Buffer, Buffer>, tls?: PeerTls): Promise<string> {
  const security = tls
    ? ServerCredentials.createSsl(Buffer.from(tls.ca), [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }], true)
    : ServerCredentials.createInsecure()
  const server = new Server()
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
  const codec = { requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs }
  server.addService({ Export: { path, requestStream: false, responseStream: false, ...codec } }, { Export: exporting })
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', security, (error, bound) => (error ? reject(error) : resolve(bound))),
  )
  onTestFinished(() => server.forceShutdown())
  return `localhost:${port}`
}

export const statusDetails = (bytes: Buffer): Metadata => {
  const metadata = new Metadata()
  metadata.set('grpc-status-details-bin', bytes)
  return metadata
}

const QUICK = { initial_interval: '1ms', max_interval: '2ms' }

/** An exporter behind its queue, which retries at once; made from options as a user writes them. */
export async function sendingBy(component: Component<'exporter'>, options: Record<string, unknown>, signal: Signal = 'traces') {
  const context: TestContext = testContext({ id: component.type, kind: 'exporter' })
  const quick = { ...options, retry_on_failure: { ...QUICK, ...(options.retry_on_failure as object) } }
  const exporter = configure(component, quick, context)
  await exporter.start?.()
  onTestFinished(() => exporter.shutdown?.())
  const config = readConfig(component.config, quick, [], []) as unknown as Sending
  const { send } = createSender(exporter, signal, config, context, new AbortController().signal)
  return { send, context }
}

/** A server's certificate, and the options of a client that it takes. */
export async function mutualTls() {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-tls-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const ca = await authority()
  const server = { ...(await signedBy(ca)), ca: ca.cert }
  const ca_file = written(folder, 'ca', ca).cert_file
  return { server, client: { ca_file, ...written(folder, 'client', await signedBy(ca, 'client')) } }
}
