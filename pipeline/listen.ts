// Endpoints as the Collector writes them (`localhost:4318`, `0.0.0.0:4317`, `[::1]:4318`), and servers that listen on them.

import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'

export interface Address {
  readonly host: string
  readonly port: number
}

/** `localhost` means 127.0.0.1, whatever order the system resolves it in; an empty host (`:4318`) means every address. */
export function parseEndpoint(endpoint: string): Address | undefined {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(endpoint)
  if (!match || Number(match[3]) > 65_535) return undefined
  const host = match[1] ?? match[2]!
  return { host: host === 'localhost' ? '127.0.0.1' : host || '0.0.0.0', port: Number(match[3]) }
}

/** For a component's `check`: what is wrong with an endpoint. */
export function checkEndpoint(endpoint: string, ...path: string[]): { path: string[]; message: string }[] {
  return parseEndpoint(endpoint) ? [] : [{ path, message: `must be host:port, e.g. localhost:4318 (got ${JSON.stringify(endpoint)})` }]
}

/** Listens, or rejects with the address and the option to change (`option`, e.g. `extensions::health_check::endpoint`). */
export async function listen(server: Server, address: Address, option: string): Promise<AddressInfo> {
  server.listen(address)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw listenError(error, address, option)
  }
  return server.address() as AddressInfo
}

/** Go's words for the reason, so that a search engine finds the Collector's answers, and the option that mends it. */
export function listenError(error: unknown, { host, port }: Address, option: string): Error {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  const reason = REASONS[code] ?? (error as Error).message
  const at = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
  return new Error(`listen tcp ${at}: bind: ${reason}; set ${option} to another address`, { cause: error })
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'address already in use',
  EADDRNOTAVAIL: 'cannot assign requested address',
  EACCES: 'permission denied',
}

/** Stops listening; connections that are idle end at once, the others after their answer. */
export async function close(server: Server & { closeIdleConnections?(): void }): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections?.()
  await closed
}
