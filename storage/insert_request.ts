// An INSERT as one request whose body is Buffers of known length. The client's own way, through streams and in chunks, costs as much
// CPU as writing the rows does.

import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { text as textOf } from 'node:stream/consumers'
import { urlToHttpOptions } from 'node:url'

import { parseError } from '@clickhouse/client'

export interface InsertRequest {
  /** Up to and including the format. */
  readonly query: string
  /** Must not change until the promise has settled. */
  readonly rows: readonly Buffer[]
  readonly settings: Readonly<Record<string, string | number>>
  readonly abort?: AbortSignal | undefined
}

/** Rejects with ClickHouseError when ClickHouse refuses, with any other error when it cannot be reached. */
export type Insert = (request: InsertRequest) => Promise<void>

interface Server {
  readonly url: string
  readonly database: string
  readonly username: string
  readonly password: string
  readonly timeoutMs: number
  readonly agent: HttpAgent
}

/** Servers end connections that rest for longer, and one that ends just when it is used again fails its request. */
const IDLE_MS = 2_500

export function agentFor(url: string, maxSockets: number): HttpAgent {
  const options = { keepAlive: true, maxSockets, timeout: IDLE_MS }
  return url.startsWith('https:') ? new HttpsAgent(options) : new HttpAgent(options)
}

export function inserting({ url, database, username, password, timeoutMs, agent }: Server): Insert {
  const { pathname } = new URL(url)
  const { protocol, hostname, port } = urlToHttpOptions(new URL(url))
  const send = protocol === 'https:' ? httpsRequest : httpRequest
  const place = { method: 'POST', hostname: hostname!, port: port || null, agent, timeout: timeoutMs }
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

  return ({ query, rows, settings, abort }) =>
    new Promise((resolve, reject) => {
      const search = new URLSearchParams({ database, query })
      for (const [name, value] of Object.entries(settings)) search.set(name, String(value))
      const length = rows.reduce((sum, { length }) => sum + length, 0)
      const headers = { authorization, 'user-agent': 'leyden', 'content-length': length }
      const sent = send({ ...place, path: `${pathname}?${search}`, headers, ...(abort && { signal: abort }) }, (response) => {
        // What a success says is passed over.
        if (response.statusCode === 200) response.on('end', resolve).on('error', reject).resume()
        else textOf(response).then((text) => reject(parseError(text)), reject)
      })
      sent.on('error', reject)
      sent.on('timeout', () => sent.destroy(new Error(`no answer to an insert in ${timeoutMs / 1_000} s`)))
      // All that is written before the next turn of the event loop is one writev().
      for (const bytes of rows) sent.write(bytes)
      sent.end()
    })
}
