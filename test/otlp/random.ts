// Random OTLP requests, in every way that protobuf allows to write them: fields in any order, twice,
// or in parts, unknown fields and groups, lengths in longer form than needed. And damaged ones.

import { ExportLogsServiceRequest, ExportTraceServiceRequest, type Message, type Scalar } from '../../data/otlp_messages.ts'
import { ROUTING_KEYS } from '../../data/scan.ts'

type Random = (n: number) => number

export function randomRequest(random: Random, signal: 'traces' | 'logs'): Buffer {
  return randomMessage(random, signal === 'traces' ? ExportTraceServiceRequest : ExportLogsServiceRequest)
}

/** With a few bytes changed, dropped or put in, or cut off. */
export function damaged(random: Random, bytes: Buffer): Buffer {
  let damaged = Buffer.from(bytes)
  for (let times = 1 + random(3); times > 0; times--) {
    const at = random(damaged.length + 1)
    const kind = random(4)
    if (kind === 0 && at < damaged.length) damaged[at] = random(256)
    else if (kind === 1) damaged = Buffer.concat([damaged.subarray(0, at), damaged.subarray(at + 1 + random(4))])
    else if (kind === 2) damaged = Buffer.concat([damaged.subarray(0, at), Buffer.of(random(256)), damaged.subarray(at)])
    else if (kind === 3 && random(3) === 0) damaged = damaged.subarray(0, at)
  }
  return damaged
}

/** Any message of otlp_messages.ts. */
export function randomMessage(random: Random, { fields, oneof }: Message, depth = 0): Buffer {
  const parts: Buffer[] = []
  if (oneof) {
    // Lists only near the top, so that values end; sometimes two members, of which the last counts.
    const allowed = fields.filter(({ type }) => typeof type === 'string' || depth < 9)
    for (let members = random(12) === 0 ? 2 : 1; members > 0; members--) parts.push(field(random, allowed[random(allowed.length)]!, depth))
  } else {
    for (const one of fields) {
      const often = one.repeated ? [0, 1, 1, 2, 3] : /traceId|spanId|key|value/.test(one.name) ? [1, 1, 1, 1, 1, 1, 1, 2] : [0, 1, 1, 2]
      for (let times = often[random(often.length)]!; times > 0; times--) parts.push(field(random, one, depth))
    }
  }
  if (random(8) === 0) parts.push(unknown(random))
  return Buffer.concat(shuffled(random, parts))
}

function field(random: Random, { number, type }: Message['fields'][number], depth: number): Buffer {
  if (typeof type !== 'string') return lengthDelimited(random, number, randomMessage(random, type, depth + 1))
  // Now and then with another wire type: the field is then unknown.
  if (random(40) === 0) return Buffer.concat([varint(random, BigInt(number * 8 + 5)), randomBytes(random, 4)])
  return scalar(random, number, type)
}

function scalar(random: Random, number: number, type: Scalar): Buffer {
  const tagged = (wireType: number, bytes: Buffer) => Buffer.concat([varint(random, BigInt(number * 8 + wireType)), bytes])
  switch (type) {
    case 'string':
      return lengthDelimited(random, number, Buffer.from(TEXTS[random(TEXTS.length)]!))
    case 'bytes':
      return lengthDelimited(random, number, randomBytes(random, random(20)))
    case 'trace_id':
      return lengthDelimited(random, number, randomId(random, 16))
    case 'span_id':
      return lengthDelimited(random, number, randomId(random, 8))
    case 'bool':
      return tagged(0, varint(random, BigInt(random(3))))
    case 'enum':
      return tagged(0, varint(random, random(10) === 0 ? BigInt.asUintN(64, -1n) : BigInt(random(30))))
    case 'uint32':
      return tagged(0, varint(random, BigInt(random(2 ** 32))))
    case 'int64':
      return tagged(
        0,
        varint(random, [0n, 7n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n, 2n ** 64n - 2n ** 53n][random(8)]!),
      )
    case 'fixed32':
      return tagged(5, randomBytes(random, 4))
    case 'fixed64':
    case 'double':
      return tagged(1, random(5) === 0 ? Buffer.alloc(8) : randomBytes(random, 8))
  }
}

const TEXTS = ['', 'a', 'chat gpt', 'Zürich 東京 🚀', 'x'.repeat(200), '__proto__', 'constructor', ...ROUTING_KEYS]

function randomId(random: Random, size: number): Buffer {
  const kind = random(20)
  return kind === 0 ? Buffer.alloc(size) : kind === 1 ? randomBytes(random, random(20)) : randomBytes(random, size)
}

function unknown(random: Random): Buffer {
  const number = 100 + random(3_000)
  const tag = (wireType: number) => varint(random, BigInt(number * 8 + wireType))
  const kinds = [
    () => Buffer.concat([tag(0), varint(random, BigInt(random(2 ** 32)) ** 2n)]),
    () => Buffer.concat([tag(1), randomBytes(random, 8)]),
    () => lengthDelimited(random, number, randomBytes(random, random(30))),
    () => Buffer.concat([tag(3), random(2) ? unknown(random) : Buffer.alloc(0), tag(4)]),
    () => Buffer.concat([tag(5), randomBytes(random, 4)]),
  ]
  return kinds[random(kinds.length)]!()
}

const lengthDelimited = (random: Random, number: number, bytes: Buffer) =>
  Buffer.concat([varint(random, BigInt(number * 8 + 2)), varint(random, BigInt(bytes.length)), bytes])

/** Sometimes a byte or two longer than it has to be. */
function varint(random: Random, value: bigint): Buffer {
  const bytes: number[] = []
  for (let rest = value; rest > 0n || bytes.length === 0; rest >>= 7n) bytes.push(Number(rest & 127n))
  if (bytes.length < 4 && random(30) === 0) bytes.push(...[0, 0].slice(random(2)))
  return Buffer.from(bytes.map((byte, i) => (i === bytes.length - 1 ? byte : byte | 128)))
}

const randomBytes = (random: Random, size: number) => Buffer.from(Array.from({ length: size }, () => random(256)))

function shuffled<T>(random: Random, list: readonly T[]): T[] {
  const shuffled = [...list]
  if (random(3) === 0) return shuffled
  for (let i = shuffled.length - 1; i > 0; i--) {
    const j = random(i + 1)
    ;[shuffled[i], shuffled[j]] = [shuffled[j]!, shuffled[i]!]
  }
  return shuffled
}
