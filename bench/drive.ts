// Sends whole passes over a load with many requests in flight, each as soon as one before it is answered. Every pass has ids of its own.
// The sender that was built with the Collector, a Go program, costs a third of what ours does, so that it leaves the machine to
// what is measured; ours needs nothing but this package.

import { execFile } from 'node:child_process'
import { access, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { freshBody, type Load } from './load.ts'
import { quantile } from './quantile.ts'
import { grpcSender, httpSender, type Sender } from './send.ts'

export interface Sent {
  /** Spans, and requests. */
  readonly acknowledged: number
  readonly failed: number
  /** Milliseconds from a request to its answer. */
  readonly p50: number
  readonly p99: number
  /** Seconds until the last answer. */
  readonly wall: number
}

export interface Driver {
  /** Sends passes first, first + 1, … */
  send(first: number, passes: number): Promise<Sent>
  close(): void
}

/** Where it is sent, as host:port. */
export interface Addresses {
  readonly grpc: string
  readonly http: string
}

export function ownDriver(load: Load, { grpc, http }: Addresses, transport: string, inFlight: number): Driver {
  const sender = transport === 'http' ? httpSender(`http://${http}`, inFlight) : grpcSender(grpc)
  return { send: (first, passes) => sendPasses(sender, load, { inFlight, first, passes }), close: () => sender.close() }
}

interface Passes {
  readonly inFlight: number
  readonly first: number
  readonly passes: number
}

async function sendPasses(sender: Sender, load: Load, { inFlight, first, passes }: Passes): Promise<Sent> {
  const latencies: number[] = []
  const count = load.requests.length
  const start = performance.now()
  let next = 0
  let acknowledged = 0
  let failed = 0
  let end = start
  const worker = async () => {
    for (let i = next++; i < count * passes; i = next++) {
      const request = load.requests[i % count]!
      const body = freshBody(request, first + Math.floor(i / count))
      const sent = performance.now()
      try {
        await sender.send(body)
        end = performance.now()
        latencies.push(end - sent)
        acknowledged += request.spans
      } catch {
        failed++
      }
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  return { acknowledged, failed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), wall: (end - start) / 1_000 }
}

const CONNECTIONS = 4
const LIMIT = '10m'
const run = promisify(execFile)

/** The Go program in the folder of a built Collector; null where it is not there. */
export async function findGenerator(folder: string): Promise<string | null> {
  const binary = join(folder, 'loadgen')
  return access(binary).then(
    () => binary,
    () => null,
  )
}

/** @param folder for the passes, which it reads from a file: it goes when they are sent */
export function goDriver(
  binary: string,
  folder: string,
  load: Load,
  { grpc, http }: Addresses,
  transport: string,
  inFlight: number,
): Driver {
  const file = join(folder, 'load.bin')
  const [proto, target] = transport === 'http' ? ['http', http] : ['grpc', grpc]
  const streams = Math.ceil(inFlight / CONNECTIONS)
  const args = ['-target', target, '-proto', proto, '-set', file, '-conns', CONNECTIONS, '-streams', streams, '-for', LIMIT]
  return {
    async send(first, passes) {
      await writePasses(file, load, first, passes)
      const { stdout } = await run(binary, [...args, '-max', load.requests.length * passes].map(String))
      await rm(file)
      const { spans, failed, error, p50ms, p99ms, wall } = JSON.parse(stdout) as Generated
      if (error) console.error(`${transport}: ${failed} requests failed, the first with: ${error}`)
      return { acknowledged: spans, failed, p50: p50ms, p99: p99ms, wall }
    },
    close() {},
  }
}

/** What it prints. */
interface Generated {
  readonly spans: number
  readonly failed: number
  readonly error: string
  readonly p50ms: number
  readonly p99ms: number
  readonly wall: number
}

/** Each body behind its length. */
async function writePasses(path: string, load: Load, first: number, passes: number): Promise<void> {
  const file = await open(path, 'w')
  try {
    for (let pass = first; pass < first + passes; pass++) {
      const parts = load.requests.flatMap((request) => {
        const length = Buffer.alloc(4)
        length.writeUInt32LE(request.body.length)
        return [length, freshBody(request, pass)]
      })
      await file.write(Buffer.concat(parts))
    }
  } finally {
    await file.close()
  }
}
