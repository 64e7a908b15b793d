// ClickHouse's HTTP interface over the engine: what its clients for JavaScript, Rust and the
// command line ask of a server. Left out: compressed blocks (compress=1, decompress=1), sessions,
// external tables, streamed answers.

import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'

import type { Answer, Engine } from './engine.ts'

/** URL parameters that are not settings of the query. */
const NOT_SETTINGS = new Set(
  `query database default_format query_id session_id session_timeout session_check user password quota_key role
   compress decompress enable_http_compression wait_end_of_query buffer_size client_protocol_version async_insert
   send_progress_in_http_headers http_headers_progress_interval_ms cancel_http_readonly_queries_on_client_close`.split(/\s+/),
)

const FORMAT = /\bFORMAT\s+(\w+)\s*;?\s*$/i

export interface FrontOptions {
  readonly engine: Engine
  readonly password: string
  /** Where the bodies of inserts are put for the engine to read. */
  readonly inserts: string
}

export async function createFront({ engine, password, inserts }: FrontOptions) {
  await rm(inserts, { recursive: true, force: true })
  await mkdir(inserts, { recursive: true, mode: 0o700 })
  let bodies = 0

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await answer(request, response)
    } catch (error) {
      request.resume()
      fail(response, error as Error)
    }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: search } = new URL(`http://localhost${request.url}`)
    if (pathname === '/ping' || (request.method === 'GET' && pathname === '/' && !search.has('query'))) return void response.end('Ok.\n')
    response.setHeader('X-ClickHouse-Query-Id', search.get('query_id') || randomUUID())
    response.setHeader('X-ClickHouse-Timezone', 'UTC')
    if (givenPassword(request, search) !== password) throw new Refusal(403, 516, 'AUTHENTICATION_FAILED', 'Wrong user name or password')
    if (pathname === '/hold') return void response.writeHead(200).flushHeaders()
    if (pathname !== '/') throw new Refusal(404, 0, 'NOT_FOUND', `There is no handle ${pathname}`)
    await query(request, response, search)
  }

  async function query(request: IncomingMessage, response: ServerResponse, search: URLSearchParams): Promise<void> {
    if (search.get('compress') === '1' || search.get('decompress') === '1') {
      throw new Refusal(
        400,
        89,
        'UNKNOWN_COMPRESSION_METHOD',
        "The embedded server does not speak ClickHouse's compressed blocks: turn compression off",
      )
    }
    const statement = {
      database: search.get('database') ?? String(request.headers['x-clickhouse-database'] ?? ''),
      settings: Object.fromEntries([...search].filter(([name]) => !NOT_SETTINGS.has(name) && !name.startsWith('param_'))),
      params: Object.fromEntries([...search].filter(([name]) => name.startsWith('param_')).map(([name, value]) => [name.slice(6), value])),
      format: search.get('default_format') ?? String(request.headers['x-clickhouse-format'] ?? 'TabSeparated'),
    }
    const head = search.get('query') ?? ''
    const insert = /^\s*INSERT\b/i.test(head) ? FORMAT.exec(head) : null
    if (insert) {
      const answer = await withBody(decoded(request), (path) =>
        engine.run({ ...statement, sql: `${head.slice(0, insert.index)} FROM INFILE '${path}' FORMAT ${insert[1]}` }),
      )
      return succeed(response, answer)
    }
    const sql = [head, (await buffer(decoded(request))).toString()].filter((part) => part.trim()).join('\n')
    if (!sql) throw new Refusal(400, 62, 'SYNTAX_ERROR', 'Empty query')
    response.setHeader('X-ClickHouse-Format', FORMAT.exec(sql)?.[1] ?? statement.format)
    succeed(response, await engine.run({ ...statement, sql }))
  }

  /** Binary data cannot stand in a statement; the engine reads it from a file beside the tables. */
  async function withBody<T>(body: Readable, use: (path: string) => Promise<T>): Promise<T> {
    const path = join(inserts, String(++bodies))
    try {
      await pipeline(body, createWriteStream(path, { highWaterMark: 1 << 20 }))
      return await use(path)
    } finally {
      await rm(path, { force: true })
    }
  }

  return handle
}

class Refusal extends Error {
  readonly status: number
  readonly code: number
  constructor(status: number, code: number, name: string, text: string) {
    super(`Code: ${code}. DB::Exception: ${text}. (${name})`)
    this.status = status
    this.code = code
  }
}

function givenPassword(request: IncomingMessage, search: URLSearchParams): string {
  const basic = /^Basic (.*)$/i.exec(request.headers.authorization ?? '')
  if (basic)
    return Buffer.from(basic[1]!, 'base64')
      .toString()
      .replace(/^[^:]*:/, '')
  return String(request.headers['x-clickhouse-key'] ?? search.get('password') ?? '')
}

function decoded(request: IncomingMessage): Readable {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') return request
  if (encoding === 'gzip') return request.pipe(createGunzip())
  throw new Refusal(400, 89, 'UNKNOWN_COMPRESSION_METHOD', `Unknown Content-Encoding ${encoding}: only gzip is understood`)
}

function succeed(response: ServerResponse, { bytes, rows_read, bytes_read }: Answer): void {
  response.writeHead(200, {
    'Content-Length': bytes.length,
    'X-ClickHouse-Summary': JSON.stringify({
      read_rows: String(rows_read),
      read_bytes: String(bytes_read),
      written_rows: String(rows_read),
    }),
  })
  response.end(bytes)
}

function fail(response: ServerResponse, error: Error): void {
  const message = /^Code: \d+/.test(error.message) ? error.message : inClickHousesWords(error)
  const code = Number(/^Code: (\d+)/.exec(message)![1])
  const status = error instanceof Refusal ? error.status : code === 60 || code === 81 ? 404 : 500
  response.writeHead(status, { 'X-ClickHouse-Exception-Code': code, 'Content-Type': 'text/plain; charset=UTF-8' })
  response.end(`${message}\n`)
}

/** An error of our own, such as a disk that is full when an insert's body arrives. */
function inClickHousesWords({ code, message }: NodeJS.ErrnoException): string {
  const [number, name] = code === 'ENOSPC' ? [243, 'NOT_ENOUGH_SPACE'] : [1002, 'UNKNOWN_EXCEPTION']
  return `Code: ${number}. DB::Exception: ${message}. (${name})`
}
