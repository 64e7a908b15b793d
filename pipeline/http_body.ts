// Reads the body of an HTTP request: within a limit, within what all requests together may hold, and uncompressed.

import type { IncomingMessage } from 'node:http'

import type { Lease } from './admission.ts'
import type { Header } from './auth.ts'
import { unpack } from './gunzip.ts'

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
  const { unpacked } = await unpack(sent, {
    maxBytes,
    reserve: lease.add,
    release: (bytes) => lease.add(-bytes),
    inTurn: (work) => work(),
    broken: (why) => new BodyError(400, `gzip: ${why}`),
    tooLarge: () => tooLarge(maxBytes),
  })
  return unpacked
}

const tooLarge = (maxBytes: number) => new BodyError(413, `the request body is larger than ${maxBytes} bytes`)
