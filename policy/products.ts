// Products of activations with weights that stay as they are: most of what a decoder does. XNNPACK, which comes compiled to WebAssembly with
// TensorFlow.js, is called directly, without TensorFlow.js around it: 1 us a call in place of 15, and 30 ms to start in place of a second.
// A row's result depends on that row alone, to the last bit: an answer must not change with what is decoded beside it. So how a product is made
// may depend on the matrix, never on how many rows there are. (That XNNPACK keeps to it was measured; a test holds it.)

import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

import { loadBlas, type Blas } from './blas.ts'

/** A matrix made ready. */
export interface Product {
  /** `y` [rows, out] = `x` [rows, into] · weight [out, into] transposed. x and y have room for FEWEST_ROWS even where fewer are asked for. */
  multiply(x: Float32Array, rows: number, y: Float32Array): void
  free(): void
}

export interface Products {
  /** For a person: what multiplies. */
  readonly line: string
  /** `weight` [out, into], row-major, must not change from now on. In slices, between which a thread can do something else. */
  prepare(weight: Float32Array, out: number, into: number): Generator<void, Product>
}

export interface ProductOptions {
  /** `blas` also takes OpenBLAS for large matrices, and must find it; `auto` where it is there; `decomp` needs nothing. */
  readonly kernels: 'auto' | 'blas' | 'decomp'
}

/** From this size on OpenBLAS is faster: much for many rows, and no slower for one. */
const LARGE = 100_000
/** It multiplies more than a million pairs with kernels that treat every row alike, and fewer with others: so it is always given rows enough. */
const PAIRS = 1_000_001
export const FEWEST_ROWS = Math.ceil(PAIRS / LARGE)

/** So many numbers are put into place in a slice: some 10 ms. */
const SLICE = 1 << 20

export async function openProducts({ kernels }: ProductOptions): Promise<Products> {
  const blas = kernels === 'decomp' ? null : await loadBlas()
  if (kernels === 'blas' && !blas)
    throw new Error('kernels blas: no OpenBLAS found; install it (Debian: libopenblas0-pthread), or use kernels: auto')
  const small = xnnpackProducts(await loadXnnpack())
  return {
    line: `matrices by XNNPACK${blas ? `, large ones by ${blas.library}` : ''}`,
    *prepare(weight, out, into) {
      if (blas && weight.length >= LARGE) return blasProduct(blas, weight, out, into)
      return yield* small(weight, out, into)
    },
  }
}

function blasProduct({ sgemm }: Blas, weight: Float32Array, out: number, into: number): Product {
  const fewest = Math.ceil(PAIRS / weight.length)
  return { multiply: (x, rows, y) => sgemm(false, true, Math.max(rows, fewest), out, into, x, weight, y), free() {} }
}

/** What Emscripten exports of TensorFlow's WebAssembly. Pointers are bytes; a tensor is an id for a place in the heap. */
interface Xnnpack {
  readonly HEAPF32: Float32Array
  readonly HEAP32: Int32Array
  _malloc(bytes: number): number
  _free(pointer: number): void
  _init(): void
  _register_tensor(id: number, size: number, pointer: number): void
  _dispose_data(id: number): void
  _BatchMatMul(
    a: number,
    shapeA: number,
    rankA: number,
    b: number,
    shapeB: number,
    rankB: number,
    ta: number,
    tb: number,
    out: number,
  ): void
}

async function loadXnnpack(): Promise<Xnnpack> {
  const require = createRequire(import.meta.url)
  let folder: string
  try {
    folder = join(dirname(require.resolve('@tensorflow/tfjs-backend-wasm/package.json')), 'wasm-out')
  } catch {
    throw new Error('a decoder needs the package @tensorflow/tfjs-backend-wasm: `npm install @tensorflow/tfjs-backend-wasm`')
  }
  const start = require(join(folder, 'tfjs-backend-wasm.js')) as (options: { locateFile(): string }) => Promise<Xnnpack>
  const xnnpack = await start({ locateFile: () => join(folder, 'tfjs-backend-wasm-simd.wasm') })
  xnnpack._init()
  return xnnpack
}

function xnnpackProducts(xnnpack: Xnnpack): Products['prepare'] {
  let ids = 0
  const shapes = allocate(xnnpack, 6)
  const left = scratch(xnnpack, ++ids)
  const result = scratch(xnnpack, ++ids)

  return function* (weight, out, into) {
    const id = ++ids
    const multiply: Product['multiply'] = (x, rows, y) => {
      const from = left.room(rows * into)
      const to = result.room(rows * out)
      xnnpack.HEAPF32.set(x.subarray(0, rows * into), from)
      xnnpack.HEAP32.set([1, rows, into, 1, into, out], shapes >> 2)
      xnnpack._BatchMatMul(left.id, shapes, 3, id, shapes + 12, 3, 0, 0, result.id)
      y.set(xnnpack.HEAPF32.subarray(to, to + rows * out))
    }
    const pointer = allocate(xnnpack, out * into)
    const rows = Math.max(1, Math.floor(SLICE / into))
    for (let from = 0; from < out; from += rows) {
      // Anew for each slice: the heap moves when it grows.
      const heap = xnnpack.HEAPF32.subarray(pointer >> 2, (pointer >> 2) + out * into)
      const to = Math.min(out, from + rows)
      for (let o = from; o < to; o++) for (let i = 0; i < into; i++) heap[i * out + o] = weight[o * into + i]!
      yield
    }
    xnnpack._register_tensor(id, out * into, pointer)
    // The first product packs the matrix into memory of XNNPACK's own, where it stays until the id is given up.
    multiply(new Float32Array(into), 1, new Float32Array(out))
    xnnpack._free(pointer)
    return { multiply, free: () => xnnpack._dispose_data(id) }
  }
}

/** A tensor that grows: activations are copied there and back, which costs a hundredth of the product. */
function scratch(xnnpack: Xnnpack, id: number) {
  let pointer = 0
  let size = 0
  return {
    id,
    /** Where it begins in HEAPF32, with room for `count` numbers. */
    room(count: number): number {
      if (count > size) {
        if (size > 0) {
          xnnpack._dispose_data(id)
          xnnpack._free(pointer)
        }
        size = count
        pointer = allocate(xnnpack, size)
        xnnpack._register_tensor(id, size, pointer)
      }
      return pointer >> 2
    },
  }
}

/** Room for so many numbers of 4 bytes. */
function allocate(xnnpack: Xnnpack, count: number): number {
  const pointer = xnnpack._malloc(count * 4) >>> 0
  if (pointer === 0)
    throw new Error(
      `the WebAssembly heap (at most 4 GB) is full: ${Math.ceil((count * 4) / 2 ** 20)} MB more were wanted; release a version`,
    )
  return pointer
}
