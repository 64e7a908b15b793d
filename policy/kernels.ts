// What the stock WebAssembly backend lacks for training. Its BatchMatMul is fast (XNNPACK) only for one pair of matrices without transposition and
// falls back to a scalar loop, 20 to 40 times slower, for all that gradients and attention need; its gather is slow, and its gradient is missing.
//   decomp  transposes explicitly and multiplies pair by pair with XNNPACK, on views of the batches
//   blas    calls cblas_sgemm on the WebAssembly heap

import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm'
import type * as TF from '@tensorflow/tfjs-core'

import type { Blas } from './blas.ts'

/** The public declarations leave out the functions that Emscripten exports. */
type Heap = BackendWasm['wasm'] & { _malloc(bytes: number): number; _free(pointer: number): void; _BatchMatMul(...args: number[]): void }

/** Replaces and adds kernels of the backend 'wasm'. Later calls replace earlier ones. */
export function installKernels(tf: typeof TF, blas: Blas | null): void {
  const backend = tf.backend() as BackendWasm
  guardHeap(backend.wasm as Heap)
  const multiply = blas ? blasMultiply(blas) : decompMultiply(tf, backend)
  replaceKernel(tf, 'BatchMatMul', ({ inputs, attrs }) => {
    const { a, b } = inputs as { a: TF.TensorInfo; b: TF.TensorInfo }
    const { transposeA, transposeB } = attrs as unknown as { transposeA: boolean; transposeB: boolean }
    const [rowsA, columnsA] = a.shape.slice(-2) as [number, number]
    const [rowsB, columnsB] = b.shape.slice(-2) as [number, number]
    const [m, k] = transposeA ? [columnsA, rowsA] : [rowsA, columnsA]
    const [inner, n] = transposeB ? [columnsB, rowsB] : [rowsB, columnsB]
    const batches = [a, b].map(({ shape }) => tf.util.sizeFromShape(shape.slice(0, -2))) as [number, number]
    if (k !== inner || (batches[0] !== batches[1] && Math.min(...batches) !== 1)) {
      throw new Error(
        `matMul of [${a.shape.join()}] and [${b.shape.join()}] does not fit (transposeA ${transposeA}, transposeB ${transposeB})`,
      )
    }
    const outer = (batches[0] >= batches[1] ? a : b).shape.slice(0, -2)
    const out = backend.makeOutput([...outer, m, n], 'float32')
    if (out.shape.every((size) => size > 0)) multiply({ backend, a, b, out, transposeA, transposeB, m, n, k, batches })
    return out
  })
  replaceKernel(tf, 'GatherV2', ({ inputs, attrs }) => {
    const { x, indices } = inputs as { x: TF.TensorInfo; indices: TF.TensorInfo }
    const { axis, batchDims } = attrs as unknown as { axis: number; batchDims: number }
    // With batchDims the stock kernel gives wrong values (tensorflow/tfjs#8658).
    if (axis !== 0 || batchDims !== 0 || x.dtype !== 'float32') throw new Error('gather: only rows of float32 along axis 0')
    const row = x.shape.slice(1)
    const width = tf.util.sizeFromShape(row)
    const out = backend.makeOutput([...indices.shape, ...row], 'float32')
    const [from, rows, to] = [x, indices, out].map((tensor) => backend.typedArrayFromHeap(tensor)) as [
      Float32Array,
      Int32Array,
      Float32Array,
    ]
    if (width === 1) rows.forEach((index, i) => (to[i] = from[index]!))
    else rows.forEach((index, i) => to.set(from.subarray(index * width, (index + 1) * width), i * width))
    return out
  })
  replaceKernel(tf, 'UnsortedSegmentSum', ({ inputs, attrs }) => {
    const { x, segmentIds } = inputs as { x: TF.TensorInfo; segmentIds: TF.TensorInfo }
    const { numSegments } = attrs as unknown as { numSegments: number }
    const row = x.shape.slice(segmentIds.shape.length)
    const width = tf.util.sizeFromShape(row)
    const out = backend.makeOutput([numSegments, ...row], 'float32')
    const [from, segments, to] = [x, segmentIds, out].map((tensor) => backend.typedArrayFromHeap(tensor)) as Float32Array[]
    to!.fill(0)
    segments!.forEach((segment, i) => {
      if (segment < 0 || segment >= numSegments) return
      for (let j = 0; j < width; j++) to![segment * width + j]! += from![i * width + j]!
    })
    return out
  })
}

interface Product {
  readonly backend: BackendWasm
  readonly a: TF.TensorInfo
  readonly b: TF.TensorInfo
  readonly out: TF.TensorInfo
  readonly transposeA: boolean
  readonly transposeB: boolean
  readonly m: number
  readonly n: number
  readonly k: number
  /** Matrices in a and in b: equal, or one of them 1. */
  readonly batches: readonly [number, number]
}

function blasMultiply({ sgemm }: Blas): (product: Product) => void {
  return ({ backend, a, b, out, transposeA, transposeB, m, n, k, batches }) => {
    const [left, right, to] = [a, b, out].map((tensor) => backend.typedArrayFromHeap(tensor)) as [Float32Array, Float32Array, Float32Array]
    const [stepA, stepB] = [batches[0] === 1 ? 0 : m * k, batches[1] === 1 ? 0 : k * n]
    for (let i = 0; i < Math.max(...batches); i++) {
      sgemm(
        transposeA,
        transposeB,
        m,
        n,
        k,
        left.subarray(i * stepA, i * stepA + m * k),
        right.subarray(i * stepB, i * stepB + k * n),
        to.subarray(i * m * n, (i + 1) * m * n),
      )
    }
  }
}

/** Rows of both matrices that a product over many of them takes at a time, so that what is transposed and packed stays in the processor's cache. */
const TALL = 512

function decompMultiply(tf: typeof TF, backend: BackendWasm): (product: Product) => void {
  const heap = backend.wasm as Heap
  // The stock wrapper marshals two shapes on every call; these two are written in place instead.
  const shapes = heap._malloc(24) >>> 0
  // Ids of views, far above those that the backend counts up from 0. XNNPACK packs a right-hand matrix once per id, and would go on using the packed
  // copy after a weight has changed or is seen in another shape: so even a single matrix gets an id for one call.
  const [viewA, viewB, viewOut] = [1 << 30, (1 << 30) + 1, (1 << 30) + 2] as const
  const transpose = tf.getKernel('Transpose', 'wasm').kernelFunc

  const transposed = (x: TF.TensorInfo): TF.TensorInfo => {
    const rank = x.shape.length
    const perm = x.shape.map((_, i) => (i === rank - 1 ? rank - 2 : i === rank - 2 ? rank - 1 : i))
    return transpose({ inputs: { x }, backend, attrs: { perm } }) as TF.TensorInfo
  }

  const multiply = ({ a, b, out, transposeA, transposeB, m, n, k, batches }: Product): void => {
    const [left, right] = [transposeA ? transposed(a) : a, transposeB ? transposed(b) : b]
    heap.HEAP32.set([1, m, k, 1, k, n], shapes >>> 2)
    const [offsetA, offsetB, offsetOut] = [left, right, out].map(({ dataId }) => backend.getMemoryOffset(dataId)) as [
      number,
      number,
      number,
    ]
    const [stepA, stepB] = [batches[0] === 1 ? 0 : 4 * m * k, batches[1] === 1 ? 0 : 4 * k * n]
    for (let i = 0; i < Math.max(...batches); i++) {
      heap.tfjs.registerTensor(viewA, m * k, offsetA + i * stepA)
      heap.tfjs.registerTensor(viewB, k * n, offsetB + i * stepB)
      heap.tfjs.registerTensor(viewOut, m * n, offsetOut + i * 4 * m * n)
      heap._BatchMatMul(viewA, shapes, 3, viewB, shapes + 12, 3, 0, 0, viewOut)
      // Forgets the view and what was packed for it; the memory stays with the tensor that it shows.
      heap.tfjs.disposeData(viewA)
      heap.tfjs.disposeData(viewB)
      heap.tfjs.disposeData(viewOut)
    }
    if (transposeA) backend.disposeData(left.dataId)
    if (transposeB) backend.disposeData(right.dataId)
  }

  /** aᵀ · b with far more rows than columns, a weight's gradient: the sum of the products of groups of rows. */
  const multiplyTall = (product: Product): void => {
    const { a, b, out, m, n, k } = product
    const part = backend.makeOutput([m, n], 'float32')
    for (let from = 0; from < k; from += TALL) {
      const rows = Math.min(TALL, k - from)
      const [rowsA, rowsB] = [rowView(a, m, from, rows), rowView(b, n, from, rows)]
      multiply({ ...product, a: rowsA, b: rowsB, out: from === 0 ? out : part, k: rows })
      forget(rowsA)
      forget(rowsB)
      if (from > 0) {
        const [sum, addend] = [backend.typedArrayFromHeap(out), backend.typedArrayFromHeap(part)]
        for (let i = 0; i < sum.length; i++) sum[i]! += addend[i]!
      }
    }
    backend.disposeData(part.dataId)
  }

  const rowView = (matrix: TF.TensorInfo, columns: number, from: number, rows: number): TF.TensorInfo =>
    backend.makeOutput([rows, columns], 'float32', backend.getMemoryOffset(matrix.dataId) + 4 * from * columns)
  /** Disposal would free memory that is the matrix's. */
  const forget = ({ dataId }: TF.TensorInfo): void => {
    heap.tfjs.disposeData(backend.dataIdMap.get(dataId).id)
    backend.dataIdMap.delete(dataId)
  }

  return (product) => {
    const tall = product.transposeA && !product.transposeB && Math.max(...product.batches) === 1 && product.k > TALL
    if (tall) multiplyTall(product)
    else multiply(product)
  }
}

/** A heap of 32-bit addresses ends at 4 GB. Unchecked, the null pointer of a failed allocation is used and the process dies of it later. */
function guardHeap(heap: Heap): void {
  if (heap._malloc.name === 'guardedMalloc') return
  // Emscripten's functions replace themselves when they are first called: after that, this one stays.
  heap._free(heap._malloc(8))
  const malloc = heap._malloc
  heap._malloc = function guardedMalloc(bytes) {
    const pointer = malloc(bytes)
    if (pointer !== 0 || bytes === 0) return pointer
    throw new Error(
      `the WebAssembly heap (at most 4 GB) is full: ${Math.round(bytes / 2 ** 20)} MB more were wanted; use fewer tokens per pass, a smaller model or another backend`,
    )
  }
}

function replaceKernel(tf: typeof TF, kernelName: string, kernelFunc: TF.KernelFunc): void {
  if (tf.getKernel(kernelName, 'wasm')) tf.unregisterKernel(kernelName, 'wasm')
  tf.registerKernel({ kernelName, backendName: 'wasm', kernelFunc })
}
