// A client for the ClickHouse that a `url` names: a server, or `embedded`.

import { Agent } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { resolve } from 'node:path'

import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client'

import { joinEmbedded, type EmbeddedServer } from './embedded/join.ts'

export interface ConnectionOptions {
  /** `http(s)://host:port`, `embedded` (the folder ./leyden_data) or `embedded:<folder>`. */
  readonly url: string
  readonly database: string
  readonly username: string
  readonly password: string
}

export interface Connection {
  readonly client: ClickHouseClient
  makeDatabase(): Promise<void>
  close(): Promise<void>
}

const EMBEDDED_FOLDER = 'leyden_data'
const CONNECTIONS = 16
const REQUEST_TIMEOUT_MS = 60_000

/** The folder of an embedded url; null for a server's. */
export function embeddedFolder(url: string, cwd = process.cwd()): string | null {
  const match = /^embedded(?::(.+))?$/.exec(url)
  return match && resolve(cwd, match[1] ?? EMBEDDED_FOLDER)
}

/** What is wrong with a url, in the words of an option's error. */
export function urlProblem(url: string): string[] {
  if (embeddedFolder(url) !== null || /^https?:\/\/[^/]/.test(url)) return []
  return [`must be embedded, embedded:<folder> or http(s)://host:port, ClickHouse's HTTP interface (got ${JSON.stringify(url)})`]
}

/** Rejects when an embedded ClickHouse cannot be started. A server need not be there yet. */
export async function connect({ url, database, username, password }: ConnectionOptions): Promise<Connection> {
  const folder = embeddedFolder(url)
  const server = folder === null ? null : await joinEmbedded(folder)
  const common = {
    max_open_connections: CONNECTIONS,
    request_timeout: REQUEST_TIMEOUT_MS,
    application: 'leyden',
    log: { level: ClickHouseLogLevel.OFF },
  }
  const agent = server && embeddedAgent(server)
  const clientOf = (database: string) =>
    server
      ? createClient({ ...common, database, url: `http://127.0.0.1:${server.port}`, password: server.password, http_agent: agent! })
      : createClient({ ...common, database, url, username, password })
  const client = clientOf(database)

  async function makeDatabase(): Promise<void> {
    if (database === 'default') return
    // A request that names a database fails as long as there is none.
    const outside = clientOf('default')
    await outside.command({ query: 'CREATE DATABASE IF NOT EXISTS {database:Identifier}', query_params: { database } })
    await outside.close()
  }

  async function close(): Promise<void> {
    await client.close()
    agent?.destroy()
    server?.close()
  }
  return { client, makeDatabase, close }
}

/** A restarted server may listen elsewhere; the clients need not know. */
function embeddedAgent(server: EmbeddedServer): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  agent.createConnection = () => connectSocket(server.port, '127.0.0.1')
  return agent
}
