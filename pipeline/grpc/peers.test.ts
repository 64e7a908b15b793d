// Clients of other languages. grpcio is tried where python3 has it (pip install grpcio); grpc-go is built first, which takes a minute,
// so it runs only where it is asked for: LEYDEN_PEERS=go.

import { execFile, execFileSync, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

import { serve } from '../../test/grpc.ts'
import { prefixed } from '../../test/raw_h2.ts'
import type { GrpcMethod } from './grpc.ts'
import { createGrpcJsServer } from './grpc_js.ts'
import { createGrpcServer } from './server.ts'

const PEERS = fileURLToPath(new URL('../../test/peers/', import.meta.url))
const TRANSPORTS = [
  ['our framing', createGrpcServer],
  ['grpc-js', createGrpcJsServer],
] as const

const METHODS = new Map<string, GrpcMethod>([
  ['/test.Echo/Call', async (message) => message],
  ['/test.Echo/Metadata', async (_message, call) => Buffer.from(call.metadata('x-name') ?? '')],
  ['/test.Echo/Fail', () => Promise.reject(new Error())],
  ['/test.Echo/Sleep', async (message) => (await sleep(1_000), message)],
])

async function tried(create: typeof createGrpcServer, command: string, args: string[], cwd: string): Promise<string> {
  const errorOf = () => ({ code: 14, message: 'busy: 100%', details: Buffer.from('details') })
  const { port } = await serve({ methods: METHODS, errorOf, maxMessageBytes: 8_000_000 }, create)
  const peer = spawn(command, [...args, `127.0.0.1:${port}`], { cwd, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  for await (const piece of peer.stdout) output += piece
  return output
}

function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

test.skipIf(!works('h2load', '--version')).each(TRANSPORTS)(
  'h2load has 2,000 calls answered on %s, 50 at a time on each of 4 connections (skipped where h2load is not installed)',
  async (_transport, create) => {
    const { port } = await serve({}, create)
    const folder = await mkdtemp(join(tmpdir(), 'leyden-h2load-'))
    const message = join(folder, 'message')
    await writeFile(message, prefixed('leyden'.repeat(500)))
    const load = ['-n', '2000', '-c', '4', '-m', '50', '-d', message, '-H', 'content-type: application/grpc', '-H', 'te: trailers']
    const { stdout } = await promisify(execFile)('h2load', [...load, `http://127.0.0.1:${port}/test.Echo/Call`])
    await rm(folder, { recursive: true })
    expect(stdout).toContain('2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout')
    // Each answer came whole: its prefix and the message of the call.
    expect(Number(/\((\d+)\) data/.exec(stdout)![1])).toBe(2_000 * 3_005)
  },
)

test.skipIf(!works('python3', '-c', 'import grpc')).each(TRANSPORTS)(
  "Python's grpcio is served on %s (skipped where python3 cannot import grpc)",
  async (_transport, create) => {
    const lines = (await tried(create, 'python3', ['grpcio.py'], PEERS)).trim().split('\n')
    expect(lines.filter((line) => !line.startsWith('ok '))).toEqual([])
    expect(lines).toHaveLength(10)
  },
)

test.skipIf(process.env.LEYDEN_PEERS !== 'go').each(TRANSPORTS)(
  'grpc-go is served on %s (skipped without LEYDEN_PEERS=go, for it builds for minutes)',
  { timeout: 300_000 },
  async (_transport, create) => {
    const lines = (await tried(create, 'go', ['run', '.'], `${PEERS}grpc_go`)).trim().split('\n')
    expect(lines.filter((line) => !line.startsWith('ok '))).toEqual([])
    expect(lines).toHaveLength(11)
  },
)
