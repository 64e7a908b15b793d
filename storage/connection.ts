// A client for the ClickHouse that a `url` names: a server, or `embedded`.

import { Agent } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { resolve } from 'node:path'

import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client'

import { joinEmbedded, type EmbeddedServer } from './embedded/join.ts'
import { inserting, type Insert } from './insert_request.ts'

export interface ConnectionOptions {
  /** `http(s)://[user:password@]host:port[/database][?setting=value]`, `embedded` (the folder ./leyden_data) or `embedded:<folder>`. */
  readonly url: string
  readonly database: string
  readonly username: string
  readonly password: string
}

export interface Connection {
  readonly client: ClickHouseClient
  readonly insert: Insert
  makeDatabase(): Promise<void>
  close(): Promise<void>
}

const URL_FORM = 'http(s)://[user:password@]host:port[/database][?setting=value]'
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
  if (embeddedFolder(url) !== null || serverOf({ url, database: '', username: '', password: '' })) return []
  const shown = JSON.stringify(url.replace(/\/\/.*@/s, '//***@'))
  return [`must be embedded, embedded:<folder> or ${URL_FORM}, ClickHouse's HTTP interface (got ${shown})`]
}

interface Server extends ConnectionOptions {
  /** ClickHouse's own, as its HTTP interface takes them. */
  readonly settings: Readonly<Record<string, string>>
}

/** What the url of a server says of these goes before the options. undefined where it is none. */
function serverOf({ url, database, username, password }: ConnectionOptions): Server | undefined {
  if (!/^https?:\/\/[^/?#]+(\/[^/?#]*)?(\?[^#]*)?$/.test(url) || !URL.canParse(url)) return undefined
  const said = new URL(url)
  try {
    return {
      url: said.origin,
      database: decodeURIComponent(said.pathname.slice(1)) || database,
      username: decodeURIComponent(said.username) || username,
      password: decodeURIComponent(said.password) || password,
      settings: Object.fromEntries(said.searchParams),
    }
  } catch {
    return undefined // a % that stands for nothing
  }
}

/** Rejects when an embedded ClickHouse cannot be started. A server need not be there yet. */
export async function connect(options: ConnectionOptions): Promise<Connection> {
  const folder = embeddedFolder(options.url)
  const server = folder === null ? null : await joinEmbedded(folder)
  const common = {
    max_open_connections: CONNECTIONS,
    request_timeout: REQUEST_TIMEOUT_MS,
    application: 'leyden',
    log: { level: ClickHouseLogLevel.OFF },
  }
  const { database, settings, ...place } = server
    ? { ...options, url: `http://127.0.0.1:${server.port}`, username: 'default', password: server.password, settings: {} }
    : (serverOf(options) ?? { ...options, settings: {} })
  const agent = server && followed(new Agent({ keepAlive: true, maxSockets: CONNECTIONS }), server)
  const clientOf = (database: string) =>
    createClient({ ...common, ...place, clickhouse_settings: settings, database, ...(agent && { http_agent: agent }) })
  const client = clientOf(database)
  const { insert, close: closeInserts } = inserting({
    ...{ ...place, settings, database, connections: CONNECTIONS, timeoutMs: REQUEST_TIMEOUT_MS },
    ...(server && { port: () => server.port }),
  })

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
    closeInserts()
    server?.close()
  }
  return { client, insert, makeDatabase, close }
}

/** A restarted server may listen elsewhere; those who use the agent need not know. */
function followed(agent: Agent, server: EmbeddedServer): Agent {
  agent.createConnection = () => connectSocket(server.port, '127.0.0.1')
  return agent
}
