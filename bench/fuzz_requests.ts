// Requests that no client would send: random ones in every legal encoding, most of them damaged afterwards. The same seed and number
// give the same request, whichever came before.

import { gzipSync } from 'node:zlib'

import { decode } from '../data/otlp_json.ts'
import { ExportLogsServiceRequest, ExportTraceServiceRequest } from '../data/otlp_messages.ts'
import { damaged, randomRequest } from '../test/otlp/random.ts'
import { seeded } from '../test/random.ts'

export interface FuzzRequest {
  readonly transport: 'http' | 'grpc'
  readonly signal: 'traces' | 'logs'
  readonly json: boolean
  readonly gzip: boolean
  readonly body: Buffer
}

type Random = (n: number) => number

/** Making a request costs far more than damaging it, so that many runs begin with the same one. */
const RUNS_OF_A_REQUEST = 64

export function fuzzRequest(seed: number, run: number): FuzzRequest {
  const { signal, message, text } = original(seed, Math.floor(run / RUNS_OF_A_REQUEST))
  const random = seeded(Math.imul(seed, 0x9e3779b1) + Math.imul(run, 0x85ebca6b))
  const transport = random(3) ? 'http' : 'grpc'
  const json = transport === 'http' && random(2) === 0
  const gzip = random(16) === 0
  const plain = mutated(random, json ? text : message)
  const packed = gzip ? gzipSync(plain, { level: 1 }) : plain
  return { transport, signal, json, gzip, body: gzip && random(4) === 0 ? damaged(random, packed) : packed }
}

interface Original {
  readonly id: string
  readonly signal: 'traces' | 'logs'
  readonly message: Buffer
  readonly text: Buffer
}
let latest: Original | undefined

function original(seed: number, number: number): Original {
  const id = `${seed} ${number}`
  if (latest?.id === id) return latest
  const random = seeded(Math.imul(seed, 0xc2b2ae35) + number)
  const signal = random(2) ? 'traces' : 'logs'
  const message = randomRequest(random, signal)
  return (latest = { id, signal, message, text: Buffer.from(jsonOf(signal, message)) })
}

/** One in eight is left as it is, so that what lies behind the decoder is reached as well. */
function mutated(random: Random, bytes: Buffer): Buffer {
  const kind = random(8)
  if (kind === 0) return bytes
  if (kind > 2) return damaged(random, bytes)
  // A piece of it once more, elsewhere; or many times, one in the other.
  const from = random(bytes.length + 1)
  const piece = bytes.subarray(from, from + 1 + random(64))
  const at = random(bytes.length + 1)
  const times = kind === 1 ? 1 : 1 + random(400)
  return Buffer.concat([bytes.subarray(0, at), ...Array<Buffer>(times).fill(piece), bytes.subarray(at)])
}

/** As JSON; what random bytes cannot be is an empty request, which the mutations then fill. */
function jsonOf(signal: 'traces' | 'logs', message: Buffer): string {
  try {
    return JSON.stringify(decode(signal === 'traces' ? ExportTraceServiceRequest : ExportLogsServiceRequest, message))
  } catch {
    return '{}'
  }
}
