// A client for the ClickHouse that a `url` names: a server, or `embedded`.

import { Agent } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { resolve } from 'node:path'

import { createClient, type ClickHouseClient } from '@clickhouse/client'

import { joinEmbedded } from './embedded/join.ts'

export interface ConnectionOptions {
  /** `http(s)://host:port`, `embedded` (the folder ./leyden_data) or `embedded:<folder>`. */
  readonly url: string
  readonly database: string
  readonly username: string
  readonly password: string
}

export interface Connection {
  readonly client: ClickHouseClient
  readonly database: string
  close(): Promise<void>
}

const EMBEDDED_FOLDER = 'leyden_data'
const CONNECTIONS = 16
const REQUEST_TIMEOUT_MS = 60_000

/** The folder of an embedded url; null for a server's. */
export function embeddedFolder(url: string): string | null {
  const match = /^embedded(?::(.+))?$/.exec(url)
  return match && resolve(match[1] ?? EMBEDDED_FOLDER)
}

/** Rejects when an embedded ClickHouse cannot be started. A server need not be there yet. */
export async function connect({ url, database, username, password }: ConnectionOptions): Promise<Connection> {
  const common = { database, max_open_connections: CONNECTIONS, request_timeout: REQUEST_TIMEOUT_MS, application: 'leyden' }
  const folder = embeddedFolder(url)
  if (folder === null) {
    const client = createClient({ ...common, url, username, password })
    return { client, database, close: () => client.close() }
  }
  const server = await joinEmbedded(folder)
  // A restarted server may listen elsewhere; the client need not know.
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  agent.createConnection = () => connectSocket(server.port, '127.0.0.1')
  const client = createClient({ ...common, url: `http://127.0.0.1:${server.port}`, password: server.password, http_agent: agent })
  async function close(): Promise<void> {
    await client.close()
    agent.destroy()
    server.close()
  }
  return { client, database, close }
}
