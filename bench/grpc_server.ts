// A gRPC server that acknowledges at once, in a process of its own: `grpc_server.js <own|grpc-js> <path>` sends its port, and, for
// each message from its parent, what it has done so far.

import { createGrpcJsServer } from '../pipeline/grpc/grpc_js.ts'
import { createGrpcServer } from '../pipeline/grpc/server.ts'

export interface Done {
  readonly messages: number
  readonly bytes: number
  readonly cpuSeconds: number
  readonly megabytes: number
}

const [, , kind, path] = process.argv
const NOTHING = Buffer.alloc(0)
let messages = 0
let bytes = 0

const create = kind === 'own' ? createGrpcServer : createGrpcJsServer
const server = create({
  host: '127.0.0.1',
  port: 0,
  methods: new Map([[path!, acknowledge]]),
  errorOf: (error) => ({ code: 2, message: String(error) }),
  onError: console.error,
  limited: console.error,
})

async function acknowledge(message: Buffer): Promise<Buffer> {
  messages++
  bytes += message.length
  return NOTHING
}

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send!({ messages, bytes, cpuSeconds: (user + system) / 1e6, megabytes: process.resourceUsage().maxRSS / 1024 } satisfies Done)
})
process.on('disconnect', () => process.exit())
process.send!((await server.listen()).port)
