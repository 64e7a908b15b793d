// ClickHouse's HTTP interface over the engine: what its clients for JavaScript, Python, Go, Rust and
// the command line ask of a server. Left out: sessions (their parameters are taken, and nothing is
// kept), external tables, streamed answers.

import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'

import { writeBlocks } from './blocks.ts'
import { CannotDecompress } from './byte_reader.ts'
import { asInsert, bodyOf, splitInsert, type Insert } from './body.ts'
import type { Answer, Engine, Statement } from './engine.ts'
import { hello, isHello } from './hello.ts'
import { Refusal } from './refusal.ts'

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
    const [pathname, query = ''] = request.url!.split(/\?(.*)/s)
    const search = new URLSearchParams(query)
    const reply = replying(response, search.get('compress') === '1')
    try {
      await answer(request, response, pathname!, search, reply)
    } catch (error) {
      request.resume()
      fail(reply, error as Error)
    }
  }

  async function answer(request: IncomingMessage, response: ServerResponse, pathname: string, search: URLSearchParams, reply: Reply) {
    if (pathname === '/ping' || (request.method === 'GET' && pathname === '/' && !search.has('query'))) return void response.end('Ok.\n')
    response.setHeader('X-ClickHouse-Query-Id', search.get('query_id') || randomUUID())
    response.setHeader('X-ClickHouse-Timezone', 'UTC')
    if (!same(givenPassword(request, search), password)) {
      throw new Refusal(403, 516, 'AUTHENTICATION_FAILED', 'Wrong user name or password')
    }
    if (pathname === '/hold') return void response.writeHead(200).flushHeaders()
    if (pathname !== '/') throw new Refusal(404, 0, 'NOT_FOUND', `There is no handle ${pathname}`)
    await query(request, search, reply)
  }

  async function query(request: IncomingMessage, search: URLSearchParams, reply: Reply): Promise<void> {
    const statement = {
      database: search.get('database') ?? String(request.headers['x-clickhouse-database'] ?? ''),
      settings: Object.fromEntries([...search].filter(([name]) => !NOT_SETTINGS.has(name) && !name.startsWith('param_'))),
      params: Object.fromEntries([...search].filter(([name]) => name.startsWith('param_')).map(([name, value]) => [name.slice(6), value])),
      format: search.get('default_format') ?? String(request.headers['x-clickhouse-format'] ?? 'TabSeparated'),
    }
    const head = search.get('query') ?? ''
    const sent = bodyOf(request, search.get('decompress') === '1')
    const { insert, body } = head.trim() ? { insert: asInsert(head), body: sent } : await splitInsert(sent)
    if (insert) return succeed(reply, await insertFrom(body, insert, statement))

    const sql = [head, (await buffer(body)).toString()].filter((part) => part.trim()).join('\n')
    if (!sql) throw new Refusal(400, 62, 'SYNTAX_ERROR', 'Empty query')
    if (isHello(sql) && search.has('client_protocol_version')) {
      const { bytes } = await engine.run({ ...statement, sql: 'SELECT version()', format: 'TSVRaw' })
      return reply(200, { 'X-ClickHouse-Format': 'Native' }, hello(bytes.toString().trim()))
    }
    succeed(reply, await engine.run({ ...statement, sql }), FORMAT.exec(sql)?.[1] ?? statement.format)
  }

  /** Binary data cannot stand in a statement; the engine reads it from a file beside the tables. */
  async function insertFrom(body: AsyncIterable<Buffer>, insert: Insert, statement: Omit<Statement, 'sql'>): Promise<Answer> {
    const path = join(inserts, String(++bodies))
    try {
      await pipeline(body, createWriteStream(path, { highWaterMark: 1 << 20 }))
      const { into, settings, format } = insert
      return await engine.run({ ...statement, sql: `${into} FROM INFILE '${path}' ${settings} FORMAT ${format}` })
    } finally {
      await rm(path, { force: true })
    }
  }

  return handle
}

type Reply = (status: number, headers: OutgoingHttpHeaders, bytes: Buffer) => void

/** A client that asked for blocks reads errors as such, too. */
function replying(response: ServerResponse, inBlocks: boolean): Reply {
  return (status, headers, bytes) => {
    const body = inBlocks ? writeBlocks(bytes) : bytes
    response.writeHead(status, { ...headers, 'Content-Length': body.length }).end(body)
  }
}

/** In the same time wherever they differ, and however long they are. */
function same(given: string, password: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(password))
}

function givenPassword(request: IncomingMessage, search: URLSearchParams): string {
  const basic = /^Basic (.*)$/i.exec(request.headers.authorization ?? '')
  if (basic)
    return Buffer.from(basic[1]!, 'base64')
      .toString()
      .replace(/^[^:]*:/, '')
  return String(request.headers['x-clickhouse-key'] ?? search.get('password') ?? '')
}

function succeed(reply: Reply, { bytes, rows_read, bytes_read }: Answer, format?: string): void {
  const summary = { read_rows: String(rows_read), read_bytes: String(bytes_read), written_rows: String(rows_read) }
  reply(200, { 'X-ClickHouse-Summary': JSON.stringify(summary), ...(format && { 'X-ClickHouse-Format': format }) }, bytes)
}

function fail(reply: Reply, error: Error): void {
  const message = /^Code: \d+/.test(error.message) ? error.message : inClickHousesWords(error)
  const code = Number(/^Code: (\d+)/.exec(message)![1])
  const status = error instanceof Refusal ? error.status : code === 60 || code === 81 ? 404 : 500
  const headers = { 'X-ClickHouse-Exception-Code': code, 'Content-Type': 'text/plain; charset=UTF-8' }
  reply(status, headers, Buffer.from(`${message}\n`))
}

/** An error of our own, such as a disk that is full when an insert's body arrives. */
function inClickHousesWords(error: NodeJS.ErrnoException): string {
  const [number, name] =
    error.code === 'ENOSPC'
      ? [243, 'NOT_ENOUGH_SPACE']
      : error instanceof CannotDecompress
        ? [271, 'CANNOT_DECOMPRESS']
        : [1002, 'UNKNOWN_EXCEPTION']
  return `Code: ${number}. DB::Exception: ${error.message}. (${name})`
}
