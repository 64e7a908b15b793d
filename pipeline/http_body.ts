// Reads the body of an HTTP request: within a limit, and uncompressed.

import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'

/** A body that is not taken, with the status to answer. */
export class BodyError extends Error {
  override name = 'BodyError'
  readonly status: 400 | 413 | 415
  constructor(status: 400 | 413 | 415, message: string) {
    super(message)
    this.status = status
  }
}

/** The limit holds for what is sent and for what it unpacks to. Throws BodyError, or whatever ended the connection. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const coding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding !== 'identity' && coding !== 'gzip') {
    throw new BodyError(415, `unsupported content encoding ${JSON.stringify(coding)}, supported: gzip`)
  }
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes)
  const sent = await collect(request, maxBytes)
  return coding === 'gzip' ? unzip(sent, maxBytes) : sent
}

function collect(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) chunks.push(chunk)
      else {
        chunks.length = 0 // what still comes is read and dropped, so that the client gets to see the answer
        reject(tooLarge(maxBytes))
      }
    })
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)))
    request.on('error', reject)
  })
}

async function unzip(sent: Buffer, maxBytes: number): Promise<Buffer> {
  try {
    return await promisify(gunzip)(sent, { maxOutputLength: maxBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes)
    throw new BodyError(400, `gzip: ${(error as Error).message}`)
  }
}

const tooLarge = (maxBytes: number) => new BodyError(413, `the request body is larger than ${maxBytes} bytes`)
