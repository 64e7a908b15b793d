// Reads the body of an HTTP request: within a limit, within what all requests together may hold, and uncompressed.

import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gunzip, type ZlibOptions } from 'node:zlib'

import type { Lease } from './admission.ts'
import type { Header } from './auth.ts'

/** A body that is not taken, with the status to answer. */
export class BodyError extends Error {
  override name = 'BodyError'
  readonly status: 400 | 413 | 415
  constructor(status: 400 | 413 | 415, message: string) {
    super(message)
    this.status = status
  }
}

/** Memory for a body whose size is announced; undefined where there is none to spare. It is asked once, when the first bytes have come. */
export type BodyMemory = (bytes: number) => Buffer | undefined

/** What a body is read from. */
export interface BodySource {
  readonly header: Header
  /** The body as it is sent, which charges the lease before it uses memory. Throws BodyError when it is larger than allowed. */
  collect(maxBytes: number, lease: Lease): Promise<Buffer>
}

/** A request of node:http. */
export const bodyOf = (request: IncomingMessage, memory?: BodyMemory): BodySource => ({
  header: (name) => request.headers[name]?.toString(),
  collect: (maxBytes, lease) => collect(request, maxBytes, lease, memory),
})

/**
 * The limit holds for what is sent and for what it unpacks to; `lease` is charged before memory is used. Throws BodyError, Refused
 * where there is no room, or whatever ended the connection.
 */
export async function readBody({ header, collect }: BodySource, maxBytes: number, lease: Lease): Promise<Buffer> {
  const coding = codingOf(header)
  if (coding !== 'identity' && coding !== 'gzip') {
    throw new BodyError(415, `unsupported content encoding ${JSON.stringify(coding)}, supported: gzip`)
  }
  if (Number(header('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes)
  const sent = await collect(maxBytes, lease)
  return coding === 'gzip' ? unzip(sent, maxBytes, lease) : sent
}

const codingOf = (header: Header): string => (header('content-encoding') ?? 'identity').trim().toLowerCase()

/** A body is charged as it comes: one that is announced and never sent holds no room. */
function collect(request: IncomingMessage, maxBytes: number, lease: Lease, memory: BodyMemory = () => undefined): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0)
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let whole: Buffer | undefined
    let size = 0
    let refused = false
    request.on('data', (chunk: Buffer) => {
      if (refused) return // what still comes is read and dropped, so that the client gets to see the answer
      try {
        size += chunk.length
        if (size > maxBytes) throw tooLarge(maxBytes)
        lease.add(chunk.length)
        if (size === chunk.length && announced > size) whole = memory(announced)
        if (whole) chunk.copy(whole, size - chunk.length)
        else chunks.push(chunk)
      } catch (error) {
        refused = true
        chunks.length = 0
        reject(error as Error)
      }
    })
    // Node sees to it that exactly as much comes as was announced.
    request.on('end', () => resolve(whole?.subarray(0, size) ?? (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size))))
    request.on('error', reject)
  })
}

async function unzip(sent: Buffer, maxBytes: number, lease: Lease): Promise<Buffer> {
  const size = announcedSize(sent)
  if (size > sent.length * LARGEST_RATIO) throw new BodyError(400, 'gzip: it is not whole')
  return unzipWithin(sent, maxBytes, lease, Math.min(size, maxBytes))
}

async function unzipWithin(sent: Buffer, maxBytes: number, lease: Lease, size: number): Promise<Buffer> {
  lease.add(size)
  try {
    // One chunk with a byte to spare, so that the result is not copied.
    return await unpack(sent, { maxOutputLength: Math.max(size, 1), chunkSize: Math.max(size + 1, 64) })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw new BodyError(400, `gzip: ${(error as Error).message}`)
    if (size === maxBytes) throw tooLarge(maxBytes)
  }
  // Several members, or a lie: it gets as much as is allowed at all.
  lease.add(-size)
  return unzipWithin(sent, maxBytes, lease, maxBytes)
}

const unpack = promisify<Buffer, ZlibOptions, Buffer>(gunzip)

/** Deflate makes 258 bytes of two bits at best: what is said to be more has lost its end, or lies, and takes no room from others. */
const LARGEST_RATIO = 1_032

/** The last four bytes of gzip: the size of its last member, which is all there is, nearly always. */
const announcedSize = (sent: Buffer): number => (sent.length < 18 ? 0 : sent.readUInt32LE(sent.length - 4))

const tooLarge = (maxBytes: number) => new BodyError(413, `the request body is larger than ${maxBytes} bytes`)
