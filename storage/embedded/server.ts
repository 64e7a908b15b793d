// The process that serves one folder: `node server.js <folder>`. It ends when it has had no
// connection for a while, so a run of Leyden leaves nothing behind and needs no one to stop it.

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

import { ALREADY_SERVED, readAddress, writeAddress } from './address.ts'
import { openEngine } from './engine.ts'
import { createFront } from './front.ts'

const IDLE_MS = 10_000
/** A statement's parameters travel in the URL. */
const MAX_HEADER_BYTES = 1 << 20

const folder = process.argv[2]!
try {
  await serve()
} catch (error) {
  const { message } = error as Error
  if (await servedByAnother()) process.exit(ALREADY_SERVED)
  process.send?.({ problem: message })
  console.error(message)
  process.exit(1)
}

async function serve(): Promise<void> {
  const engine = await openEngine(folder)
  const before = await readAddress(folder)
  const password = before?.password ?? randomBytes(24).toString('base64url')
  const front = await createFront({ engine, password, inserts: join(folder, 'inserts') })
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => void front(request, response))
  server.keepAliveTimeout = IDLE_MS

  let idle: NodeJS.Timeout | undefined
  let connections = 0
  const rest = () => (idle = setTimeout(stop, IDLE_MS))
  server.on('connection', (socket) => {
    clearTimeout(idle)
    connections++
    socket.on('close', () => --connections === 0 && rest())
  })

  async function stop(): Promise<void> {
    server.close()
    server.closeIdleConnections()
    await engine.close()
    process.exit(0)
  }
  process.on('SIGTERM', () => void stop())
  process.on('SIGINT', () => void stop())

  // The port of last time, so that a user's tools find it again; any other if it was taken meanwhile.
  await listen(server, before?.port ?? 0).catch(() => listen(server, 0))
  await writeAddress(folder, { port: (server.address() as AddressInfo).port, pid: process.pid, password })
  rest()
  process.send?.({ ready: true })
}

/**
 * chDB locks its file `status` and then writes its process id there; the kernel frees the lock when that process dies. What
 * chDB says when it finds the file locked is the same as for any other failure.
 */
async function servedByAnother(): Promise<boolean> {
  const status = await readFile(join(folder, 'clickhouse', 'status'), 'utf8').catch(() => null)
  if (status === null) return false
  const [, pid] = /^PID: (\d+)/m.exec(status) ?? []
  try {
    return pid === undefined || process.kill(Number(pid), 0)
  } catch {
    return false
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}
