// CityHash128 as of version 1.0.2, which ClickHouse's compressed blocks carry as their checksum; later versions of CityHash give
// other values. After Geoff Pike and Jyrki Alakuijala, Google, 2011. Words are BigInts cut to 64 bits at once, which V8 then keeps
// in registers.

type Words = readonly [low: bigint, high: bigint]

const K0 = 0xc3a5c85c97cb3127n
const K1 = 0xb492b66fbe98f273n
const K2 = 0x9ae16a3b2f90404fn
const K3 = 0xc949d7c7509e6557n
const MIX = 0x9ddfea08eb382d69n

export function cityHash128(bytes: Uint8Array): Words {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const size = bytes.length
  if (size >= 16) return seeded(part(view, 16), word(view, 0) ^ K3, word(view, 8))
  if (size >= 8) return seeded(part(view, size), word(view, 0) ^ mul(BigInt(size), K0), word(view, size - 8) ^ K1)
  return seeded(view, K0, K1)
}

const u64 = (value: bigint): bigint => BigInt.asUintN(64, value)
const add = (a: bigint, b: bigint): bigint => u64(a + b)
const mul = (a: bigint, b: bigint): bigint => u64(a * b)
const rotate = (value: bigint, by: bigint): bigint => (by === 0n ? value : u64((value >> by) | (value << (64n - by))))
const shiftMix = (value: bigint): bigint => value ^ (value >> 47n)
const word = (view: DataView, at: number): bigint => view.getBigUint64(at, true)
const part = (view: DataView, from: number): DataView => new DataView(view.buffer, view.byteOffset + from, view.byteLength - from)

function seeded(view: DataView, low: bigint, high: bigint): Words {
  return view.byteLength < 128 ? short(view, low, high) : long(view, low, high)
}

/** Fewer than 128 bytes: as Murmur does it. */
function short(view: DataView, low: bigint, high: bigint): Words {
  const size = view.byteLength
  let [a, b, c, d] = [low, high, 0n, 0n]
  if (size <= 16) {
    a = mul(shiftMix(mul(a, K1)), K1)
    c = add(mul(b, K1), upTo16(view))
    d = shiftMix(add(a, size >= 8 ? word(view, 0) : c))
  } else {
    c = pair(add(word(view, size - 8), K1), a)
    d = pair(add(b, BigInt(size)), add(c, word(view, size - 16)))
    a = add(a, d)
    for (let at = 0; at < size - 16; at += 16) {
      a = mul(a ^ mul(shiftMix(mul(word(view, at), K1)), K1), K1)
      b ^= a
      c = mul(c ^ mul(shiftMix(mul(word(view, at + 8), K1)), K1), K1)
      d ^= c
    }
  }
  a = pair(a, c)
  b = pair(d, b)
  return [a ^ b, pair(b, a)]
}

function long(view: DataView, low: bigint, high: bigint): Words {
  const size = view.byteLength
  let [x, y, z] = [low, high, mul(BigInt(size), K1)]
  let v0 = add(mul(rotate(y ^ K1, 49n), K1), word(view, 0))
  let v1 = add(mul(rotate(v0, 42n), K1), word(view, 8))
  let w0 = add(mul(rotate(add(y, z), 35n), K1), x)
  let w1 = mul(rotate(add(x, word(view, 88)), 53n), K1)

  // 128 bytes a round, of which each half is done alike.
  const end = size - (size % 128)
  for (let at = 0; at < end; at += 64) {
    x = mul(rotate(add(add(x, y), add(v0, word(view, at + 16))), 37n), K1)
    y = mul(rotate(add(add(y, v1), word(view, at + 48)), 42n), K1)
    x ^= w1
    y ^= v0
    z = rotate(z ^ w0, 33n)
    ;[v0, v1] = weak(view, at, mul(v1, K1), add(x, w0))
    ;[w0, w1] = weak(view, at + 32, add(z, w1), y)
    ;[x, z] = [z, x]
  }

  y = add(y, add(mul(rotate(w0, 37n), K0), z))
  x = add(x, mul(rotate(add(v0, z), 49n), K0))
  // The rest from behind, in pieces of 32 bytes, the last of which may overlap what was done.
  for (let done = 32; done - 32 < size - end; done += 32) {
    const at = size - done
    y = add(mul(rotate(u64(y - x), 42n), K0), v1)
    w0 = add(w0, word(view, at + 16))
    x = add(mul(rotate(x, 49n), K0), w0)
    w0 = add(w0, v0)
    ;[v0, v1] = weak(view, at, v0, v1)
  }
  x = pair(x, v0)
  y = pair(y, w0)
  return [add(pair(add(x, v1), w1), y), pair(add(x, w1), add(y, v1))]
}

/** 32 bytes into two words. */
function weak(view: DataView, at: number, a: bigint, b: bigint): Words {
  const [first, second, third, last] = [word(view, at), word(view, at + 8), word(view, at + 16), word(view, at + 24)]
  const start = add(a, first)
  const sum = add(start, add(second, third))
  const turned = rotate(add(add(b, start), last), 21n)
  return [add(sum, last), add(add(turned, rotate(sum, 44n)), start)]
}

function pair(low: bigint, high: bigint): bigint {
  const a = mul(low ^ high, MIX)
  const b = mul(high ^ (a ^ (a >> 47n)), MIX)
  return mul(b ^ (b >> 47n), MIX)
}

function upTo16(view: DataView): bigint {
  const size = view.byteLength
  if (size > 8) {
    const last = word(view, size - 8)
    return pair(word(view, 0), rotate(add(last, BigInt(size)), BigInt(size))) ^ last
  }
  if (size >= 4) return pair(BigInt(size + view.getUint32(0, true) * 8), BigInt(view.getUint32(size - 4, true)))
  if (size === 0) return K2
  const y = BigInt(view.getUint8(0) + (view.getUint8(size >> 1) << 8))
  const z = BigInt(size + (view.getUint8(size - 1) << 2))
  return mul(shiftMix(mul(y, K2) ^ mul(z, K3)), K2)
}
