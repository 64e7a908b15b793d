// Servers for tests of gRPC: one that echoes, on either transport.

import type { AddressInfo } from 'node:net'

import { status } from '@grpc/grpc-js'
import { onTestFinished } from 'vitest'

import { Refused } from '../pipeline/component.ts'
import type { GrpcMethod, GrpcServer, GrpcServerOptions, Limit } from '../pipeline/grpc/grpc.ts'
import { createGrpcServer } from '../pipeline/grpc/server.ts'

export const ECHO = '/test.Echo/Call'

/** Ended with the test. Errors are UNKNOWN, or UNAVAILABLE when they are Refused, with their message. `limited` counts the limits that were hit. */
export async function serve(
  options: Partial<GrpcServerOptions> & { method?: GrpcMethod } = {},
  create: (options: GrpcServerOptions) => GrpcServer = createGrpcServer,
): Promise<GrpcServer & AddressInfo & { readonly limited: Readonly<Partial<Record<Limit, number>>> }> {
  const mistakes: unknown[] = []
  const limited: Partial<Record<Limit, number>> = {}
  const server = create({
    host: '127.0.0.1',
    port: 0,
    methods: new Map([[ECHO, options.method ?? (async (message) => message)]]),
    errorOf: (error) => ({ code: error instanceof Refused ? status.UNAVAILABLE : status.UNKNOWN, message: (error as Error).message }),
    onError: (error) => mistakes.push(error),
    limited: (limit) => void (limited[limit] = (limited[limit] ?? 0) + 1),
    ...options,
  })
  const address = await server.listen()
  onTestFinished(async () => {
    await server.close(0)
    if (mistakes.length > 0) throw mistakes[0]
  })
  return { ...server, ...address, limited }
}
