// What a client sends: unpacked from its encodings, and an insert's statement told from the data behind it.

import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'

import { readBlocks } from './blocks.ts'
import { CannotDecompress } from './byte_reader.ts'
import { readLz4Frames } from './lz4.ts'
import { Refusal } from './refusal.ts'

type Bytes = AsyncIterable<Buffer>

/** Content-Encoding outside, ClickHouse's own blocks within. What is not known is refused: guessing would store rubbish, or nothing. */
export function bodyOf(request: IncomingMessage, inBlocks: boolean): Bytes {
  const body = unpacked(request, request.headers['content-encoding'] ?? 'identity')
  return inBlocks ? readBlocks(body) : body
}

function unpacked(request: IncomingMessage, encoding: string): Bytes {
  switch (encoding) {
    case 'identity':
      return request
    case 'gzip':
      return through(request, createGunzip())
    case 'deflate':
      return through(request, createInflate())
    case 'br':
      return through(request, createBrotliDecompress())
    case 'lz4':
      return readLz4Frames(request)
  }
  throw new Refusal(400, 89, 'UNKNOWN_COMPRESSION_METHOD', `Unknown Content-Encoding ${encoding}: identity, gzip, deflate, br and lz4 are`)
}

/** Not by pipeline(), which would end the connection before a mistake in the data is answered. */
async function* through(request: IncomingMessage, transform: Transform): AsyncGenerator<Buffer> {
  request.on('error', (error) => transform.destroy(error))
  try {
    yield* request.pipe(transform) as Bytes
  } catch (error) {
    throw new CannotDecompress((error as Error).message)
  }
}

export interface Insert {
  /** Up to its FORMAT, with the place where FROM INFILE belongs. */
  readonly into: string
  readonly settings: string
  readonly format: string
}

// Up to FORMAT there are names, possibly quoted, columns and settings. Where a query or VALUES comes first, no data follows.
const PART = /(?!\b(?:SELECT|VALUES|WITH|WATCH)\b)(?:`[^`]*`|"[^"]*"|'(?:[^'\\]|\\[^])*'|[^`"'])/.source
const INSERT = new RegExp(`^(\\s*INSERT\\s+INTO\\b${PART}*?)(\\bSETTINGS\\b${PART}*?)?\\bFORMAT\\s+(\\w+)[^\\S\\n]*;?[^\\S\\n]*`, 'i')
const HEAD_BYTES = 1 << 16

/** Of a text that is nothing but an insert's statement. */
export function asInsert(sql: string): Insert | null {
  const found = INSERT.exec(sql)
  return found && sql.slice(found[0].length).trim() === '' ? insertOf(found) : null
}

/**
 * Of a body that holds both, as clickhouse-connect sends it: the statement ends with the line that names the format. The body is
 * handed back whole where it holds no data.
 */
export async function splitInsert(body: Bytes): Promise<{ insert: Insert | null; body: Bytes }> {
  const pieces = body[Symbol.asyncIterator]()
  let head = Buffer.alloc(0)
  while (head.length < HEAD_BYTES && !/\bFORMAT\s+\w+[^\S\n]*\n/i.test(head.toString('latin1'))) {
    const { done, value } = await pieces.next()
    if (done) break
    head = Buffer.concat([head, value])
    if (!/^\s*(I|$)/i.test(head.toString('latin1', 0, 64))) break
  }
  // Latin-1 has a character a byte, so places in the text are places in the bytes.
  const found = INSERT.exec(head.toString('latin1', 0, HEAD_BYTES))
  const end = found?.[0].length ?? 0
  const insert = found && head[end] === 0x0a ? insertOf(INSERT.exec(head.subarray(0, end).toString())!) : null
  const rest = insert ? head.subarray(end + 1) : head
  return { insert, body: following(rest, pieces) }
}

const insertOf = ([, into, settings = '', format]: RegExpExecArray): Insert => ({ into: into!, settings, format: format! })

async function* following(first: Buffer, pieces: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first
  for (;;) {
    const { done, value } = await pieces.next()
    if (done) return
    yield value
  }
}
