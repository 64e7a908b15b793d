// What a transport costs by itself: a server that acknowledges at once, on our own framing and on @grpc/grpc-js with bytes in and bytes
// out, in turn. The load comes from h2load (Debian: nghttp2-client) where it is installed, else from clients of grpc-js.

import { fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import type { Done } from './grpc_server.ts'
import { makeLoad } from './load.ts'
import { EXPORT, grpcSender } from './send.ts'
import { formatTable } from './table.ts'

const KINDS = ['own', 'grpc-js'] as const
type Kind = (typeof KINDS)[number]

const ROUNDS = 3
const CONNECTIONS = 4
const SPANS = 2_048

export async function grpcTransports({ batches, seconds }: { batches: readonly number[]; seconds: number }): Promise<void> {
  const rows: (string | number)[][] = []
  for (const batch of batches) {
    const { requests } = makeLoad(batch, SPANS)
    const { body } = requests.toSorted((a, b) => a.body.length - b.body.length)[requests.length >> 1]!
    const servers = new Map(await Promise.all(KINDS.map(async (kind) => [kind, await startServer(kind)] as const)))
    const rounds = new Map<Kind, Done[]>(KINDS.map((kind) => [kind, []]))
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [kind, server] of servers) {
        const done = await measure(server, body, seconds)
        if (round > 0) rounds.get(kind)!.push(done) // the first one warms up
      }
    }
    const rates = KINDS.map((kind) => median(rounds.get(kind)!.map(({ messages, cpuSeconds }) => messages / cpuSeconds)))
    KINDS.forEach((kind, i) => {
      const wall = median(rounds.get(kind)!.map(({ messages }) => messages / seconds))
      const megabytes = Math.max(...rounds.get(kind)!.map((done) => done.megabytes))
      const rate = rates[i]!
      rows.push([
        kind,
        batch,
        Math.round(rate),
        Math.round(rate * batch),
        Math.round((rate * body.length) / 1e6),
        Math.round(wall * batch),
        Math.round(megabytes),
        (rate / rates.at(-1)!).toFixed(1),
      ])
    })
    for (const server of servers.values()) server.stop()
  }
  const header = ['transport', 'spans a request', 'requests per CPU-second', 'spans', 'MB', 'spans/s', 'peak MB', 'ratio to grpc-js']
  console.log(formatTable(header, rows))
}

async function startServer(kind: Kind) {
  const child = fork(fileURLToPath(new URL('grpc_server.js', import.meta.url)), [kind, EXPORT])
  const [port] = (await once(child, 'message')) as [number]
  return {
    port,
    async done(): Promise<Done> {
      child.send('report')
      return ((await once(child, 'message')) as [Done])[0]
    },
    stop: () => child.disconnect(),
  }
}

async function measure(server: Awaited<ReturnType<typeof startServer>>, body: Buffer, seconds: number): Promise<Done> {
  const before = await server.done()
  await (hasH2load() ? loadByH2load : loadByGrpcJs)(server.port, body, seconds)
  const after = await server.done()
  return {
    messages: after.messages - before.messages,
    bytes: after.bytes - before.bytes,
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    megabytes: after.megabytes,
  }
}

const hasH2load = () => spawnSync('h2load', ['--version']).status === 0
/** As many as fill a server, fewer of the large ones. */
const inFlight = (body: Buffer) => (body.length > 1e6 ? 2 : 8)

async function loadByH2load(port: number, body: Buffer, seconds: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-grpc-'))
  const file = join(folder, 'message')
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(body.length, 1)
  await writeFile(file, Buffer.concat([prefix, body]))
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers']
  const load = ['-c', String(CONNECTIONS), '-m', String(inFlight(body)), '-D', String(seconds), '-d', file]
  const child = spawn('h2load', [...load, ...headers, `http://127.0.0.1:${port}${EXPORT}`], { stdio: ['ignore', 'ignore', 'inherit'] })
  await once(child, 'exit')
  await rm(folder, { recursive: true })
}

async function loadByGrpcJs(port: number, body: Buffer, seconds: number): Promise<void> {
  const sender = grpcSender(`127.0.0.1:${port}`)
  const end = performance.now() + 1_000 * seconds
  const worker = async () => {
    while (performance.now() < end) await sender.send(body)
  }
  await Promise.all(Array.from({ length: CONNECTIONS * inFlight(body) }, worker))
  sender.close()
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!
