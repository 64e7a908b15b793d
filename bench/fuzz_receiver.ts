// Sends requests that no client would send to a Leyden of its own, a child process with nothing but an OTLP receiver and an exporter that reads
// all it is given. What must hold: the process lives, every request is answered in time and by a status that the request deserves, a
// good request is taken before and after, all that was accepted is exported, and memory does not grow with the number of requests.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import http2 from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { sendGrpc, sendHttp, type Answer } from '../test/otlp/client.ts'
import { fuzzRequest, type FuzzRequest } from './fuzz_requests.ts'
import { launchLeyden } from './leyden.ts'
import { end, freePorts, megabytes } from './processes.ts'

export interface Fuzzed {
  /** How many requests got each answer. */
  readonly answers: Readonly<Record<string, number>>
  /** What must not happen, with the number of the run. */
  readonly failures: readonly string[]
  /** Resident, after a tenth of the runs and after all. */
  readonly megabytes: { readonly early: number; readonly end: number }
  readonly seconds: number
}

export interface FuzzOptions {
  readonly seed: number
  /** The first run; those before it are left out. */
  readonly offset: number
  readonly runs: number
  progress?(done: number): void
}

const IN_FLIGHT = 32
/** A machine that is busy with other things may take seconds; what hangs takes for ever. */
const ANSWER_MS = 60_000
/** Enough to find what is wrong. */
const MAX_FAILURES = 10
/** What a heap may take without having grown for good. */
const GROWTH_MB = 150
const PROGRESS_EVERY = 10_000

/** Taken; or the request is at fault. */
const LEGAL = ['http 200', 'http 400', 'grpc 0', 'grpc 3']
/** What gRPC wants said of a message that cannot be decompressed. */
const BAD_GZIP = 'grpc 13'

export async function fuzz({ seed, offset, runs, progress }: FuzzOptions): Promise<Fuzzed> {
  const leyden = await start()
  const answers: Record<string, number> = {}
  const failures: string[] = []
  const memory = { early: 0, end: 0 }
  const began = performance.now()
  let next = 0

  async function worker(): Promise<void> {
    for (let i = next++; i < runs && failures.length < MAX_FAILURES; i = next++) {
      const run = offset + i
      const request = fuzzRequest(seed, run)
      const answer = await leyden.ask(request)
      answers[answer] = (answers[answer] ?? 0) + 1
      if (!LEGAL.includes(answer) && !(request.gzip && answer === BAD_GZIP)) failures.push(`run ${run}: ${answer}`)
      if (i === Math.floor(runs / 10)) memory.early = await leyden.megabytes()
      if ((i + 1) % PROGRESS_EVERY === 0) progress?.(i + 1)
    }
  }

  try {
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
    memory.end = await leyden.megabytes()
    if (memory.end > memory.early + GROWTH_MB) failures.push(`memory grew from ${memory.early} to ${memory.end} MB`)
    for (const transport of ['http', 'grpc'] as const) {
      const answer = await leyden.ask({ transport, signal: 'traces', json: false, gzip: false, body: Buffer.alloc(0) })
      if (!/ (200|0)$/.test(answer)) failures.push(`a good request after all others: ${answer}`)
    }
    for (const unit of ['spans', 'log_records']) {
      const { accepted, sent } = await leyden.counted(unit)
      if (accepted === 0 || accepted !== sent) failures.push(`${accepted} ${unit} were accepted, and ${sent} exported`)
    }
  } finally {
    await leyden.stop()
  }
  return { answers, failures, megabytes: memory, seconds: (performance.now() - began) / 1_000 }
}

async function start() {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-fuzz-'))
  const [grpcPort, httpPort, health, metrics] = (await freePorts(4)) as [number, number, number, number]
  const config = join(folder, 'pipeline.yaml')
  await writeFile(
    config,
    `
receivers:
  otlp: {protocols: {grpc: {endpoint: localhost:${grpcPort}}, http: {endpoint: localhost:${httpPort}}}}
exporters:
  file: {path: /dev/null}
extensions:
  health_check: {endpoint: localhost:${health}}
service:
  extensions: [health_check]
  telemetry: {logs: {level: error}, metrics: {readers: [{pull: {exporter: {prometheus: {host: localhost, port: ${metrics}}}}}]}}
  pipelines:
    traces: {receivers: [otlp], exporters: [file]}
    logs: {receivers: [otlp], exporters: [file]}
`,
  )
  const child = await launchLeyden(config, health)
  const agent = new http.Agent({ keepAlive: true, maxSockets: IN_FLIGHT })
  let session = http2.connect(`http://localhost:${grpcPort}`).on('error', () => {})

  async function send({ transport, signal, json, gzip, body }: FuzzRequest): Promise<Answer> {
    if (transport === 'http') {
      const headers = { 'content-type': json ? 'application/json' : 'application/x-protobuf', ...(gzip && { 'content-encoding': 'gzip' }) }
      return sendHttp(httpPort, { method: 'POST', path: `/v1/${signal}`, headers, body }, agent)
    }
    if (session.closed || session.destroyed) session = http2.connect(`http://localhost:${grpcPort}`).on('error', () => {})
    const service = signal === 'traces' ? 'trace.v1.TraceService' : 'logs.v1.LogsService'
    const path = `/opentelemetry.proto.collector.${service}/Export`
    const headers: Record<string, string> = gzip ? { 'grpc-encoding': 'gzip' } : {}
    return sendGrpc(session, { path, headers, body, compressed: gzip })
  }

  return {
    /** The answer in two words, such as `http 200`. */
    async ask(request: FuzzRequest): Promise<string> {
      const { transport } = request
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<string>((resolve) => (timer = setTimeout(resolve, ANSWER_MS, `${transport} hangs`)))
      const answered = send(request).then(
        ({ status, grpc_code }) => `${transport} ${status ?? grpc_code}`,
        (error: Error) => `${transport} ${child.exitCode ?? child.signalCode ?? ''} ${error.message}`,
      )
      const answer = await Promise.race([answered, late])
      clearTimeout(timer)
      return answer
    },
    /** What its receiver accepted and its exporter sent. */
    async counted(unit: string) {
      const text = await (await fetch(`http://localhost:${metrics}/metrics`)).text()
      const total = (name: string) =>
        [...text.matchAll(new RegExp(`^otelcol_${name}_${unit}_total.* (\\d+)$`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0)
      return { accepted: total('receiver_accepted'), sent: total('exporter_sent') }
    },
    megabytes: async () => Math.round(await megabytes(child.pid!)),
    async stop() {
      agent.destroy()
      session.destroy()
      if (child.exitCode === null && child.signalCode === null) await end(child, 'SIGTERM')
      await rm(folder, { recursive: true })
    },
  }
}
