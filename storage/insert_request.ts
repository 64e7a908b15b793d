// An INSERT as one request whose body is Buffers of known length. The client's own way, through streams and in chunks, costs as much
// CPU as writing the rows does.

import { parseError } from '@clickhouse/client'

import { connectingTo, posting, type Posting } from '../http/post.ts'

/**
 * Stores rows, whose bytes must not change until the promise has settled; those that come again with the same token are stored once.
 * `query` is an INSERT up to and including its format, one of few. Rejects with ClickHouseError when ClickHouse refuses, with any other error when it
 * cannot be reached.
 */
export type Insert = (query: string, rows: readonly Buffer[], token: string, abort?: AbortSignal) => Promise<void>

export interface Inserting {
  readonly insert: Insert
  close(): void
}

interface Server extends Pick<Posting, 'connections' | 'timeoutMs'> {
  readonly url: string
  readonly database: string
  readonly username: string
  readonly password: string
  /** Those that inserts themselves set go before these. */
  readonly settings: Readonly<Record<string, string>>
  /** Of a server that may come to listen elsewhere. */
  readonly port?: () => number
}

/** The cheapest way to take in a block, measured: one thread, no parallel parsing. */
const SETTINGS = { max_threads: '1', max_insert_threads: '1', input_format_parallel_parsing: '0', async_insert: '0' }

export function inserting({ url, database, username, password, settings, port, connections, timeoutMs }: Server): Inserting {
  const { host, pathname } = new URL(url)
  const { post, close } = posting({ connect: connectingTo(url, port), connections, timeoutMs })
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const headers = `Host: ${host}\r\nAuthorization: ${authorization}\r\nUser-Agent: leyden\r\nContent-Length: `
  /** Request lines by query, but for their ends. */
  const lines = new Map<string, string>()

  function lineOf(query: string): string {
    let line = lines.get(query)
    if (!line)
      lines.set(
        query,
        (line = `POST ${pathname}?${new URLSearchParams({ ...settings, database, query, ...SETTINGS })}&insert_deduplication_token=`),
      )
    return line
  }

  async function insert(query: string, rows: readonly Buffer[], token: string, abort?: AbortSignal): Promise<void> {
    let length = 0
    for (const bytes of rows) length += bytes.length
    const { status, body } = await post(`${lineOf(query)}${token} HTTP/1.1\r\n${headers}${length}\r\n\r\n`, rows, abort)
    if (status !== 200) throw parseError(body.toString())
  }

  return { insert, close }
}
