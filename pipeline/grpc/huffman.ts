// The Huffman code of HPACK (RFC 7541, appendix B), decoded four bits at a time.

/** Bits of each byte's code. The code is canonical: the lengths are all there is to know. */
const LENGTHS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10,
  12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7,
  7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22,
  23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22,
  23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20,
  24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
]
const EMITS = 0x10000
const FAILS = -1

/** By node of the tree and next four bits: the next node, with `EMITS` and a byte above it when a code was completed; or `FAILS`. */
const { steps, complete } = compile()

/** Writes the decoded bytes to `out`, which must hold 8/5 of the input, and returns how many; -1 when the code is not valid. */
export function decodeHuffman(coded: Buffer, start: number, end: number, out: Buffer): number {
  let node = 0
  let length = 0
  for (let i = start; i < end; i++) {
    const byte = coded[i]!
    const high = steps[(node << 4) | (byte >>> 4)]!
    if (high === FAILS) return -1
    if (high & EMITS) out[length++] = high >>> 8
    const low = steps[((high & 255) << 4) | (byte & 15)]!
    if (low === FAILS) return -1
    if (low & EMITS) out[length++] = low >>> 8
    node = low & 255
  }
  return complete[node] ? length : -1
}

function compile() {
  const tree = growTree()
  const steps = Int32Array.from({ length: tree.length * 16 }, (_, i) => walk(tree, i >>> 4, i & 15))
  const complete = new Uint8Array(tree.length)
  // An end is right after a whole code and up to seven ones, the beginning of the code for "end of string".
  for (let node: number | undefined = 0, bits = 0; bits < 8 && node !== undefined; bits++, node = tree[node]![1]) complete[node] = 1
  return { steps, complete }
}

/** A node has two children: another node, or the byte whose code ends there as ~byte. */
type Tree = [zero: number | undefined, one: number | undefined][]

function growTree(): Tree {
  const tree: Tree = [[undefined, undefined]]
  let code = 0
  let bits = 0
  for (const { length, byte } of LENGTHS.map((length, byte) => ({ length, byte })).sort((a, b) => a.length - b.length || a.byte - b.byte)) {
    code *= 2 ** (length - bits)
    bits = length
    let node = 0
    for (let bit = length - 1; bit > 0; bit--) node = tree[node]![(code >>> bit) & 1] ??= tree.push([undefined, undefined]) - 1
    tree[node]![code & 1] = ~byte
    code++
  }
  return tree
}

function walk(tree: Tree, from: number, nibble: number): number {
  let node = from
  let emitted = 0
  for (let bit = 3; bit >= 0; bit--) {
    const next = tree[node]![(nibble >>> bit) & 1]
    if (next === undefined) return FAILS
    if (next < 0) emitted = EMITS | (~next << 8)
    node = Math.max(next, 0)
  }
  return emitted | node
}
