// What the stock WebAssembly backend lacks for training. Its BatchMatMul is fast (XNNPACK) only for one pair of matrices without transposition and
// falls back to a scalar loop, 20 to 40 times slower, for all that gradients and attention need; and its gather has no gradient kernel.
//   decomp  transposes explicitly and multiplies pair by pair with XNNPACK, on views of the batches
//   blas    calls cblas_sgemm on the WebAssembly heap

import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm'
import type * as TF from '@tensorflow/tfjs-core'

import type { Blas } from './blas.ts'

/** The public declarations leave out the functions that Emscripten exports. */
type Heap = BackendWasm['wasm'] & { _malloc(bytes: number): number; _free(pointer: number): void; _BatchMatMul(...args: number[]): void }

/**
 * XNNPACK packs the right-hand matrix once per tensor and keeps the packed copy for as long as the tensor lives. That is right only for weights that
 * never change and are always seen in one shape: those a decoder serves. All other right-hand sides get an id for one call.
 */
const constants = new WeakSet<object>()

/** Promises that the tensor's values never change, so that products with it need not pack it again. */
export function markConstant(tensor: TF.Tensor): void {
  constants.add(tensor.dataId)
}

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

function decompMultiply(tf: typeof TF, backend: BackendWasm): (product: Product) => void {
  const heap = backend.wasm as Heap
  // The stock wrapper marshals two shapes on every call; these two are written in place instead.
  const shapes = heap._malloc(24) >>> 0
  // Ids of views, far above those that the backend counts up from 0.
  const [viewA, viewB, viewOut] = [1 << 30, (1 << 30) + 1, (1 << 30) + 2] as const
  const transpose = tf.getKernel('Transpose', 'wasm').kernelFunc

  const transposed = (x: TF.TensorInfo): TF.TensorInfo => {
    const rank = x.shape.length
    const perm = x.shape.map((_, i) => (i === rank - 1 ? rank - 2 : i === rank - 2 ? rank - 1 : i))
    return transpose({ inputs: { x }, backend, attrs: { perm } }) as TF.TensorInfo
  }

  return ({ a, b, out, transposeA, transposeB, m, n, k, batches }) => {
    const [left, right] = [transposeA ? transposed(a) : a, transposeB ? transposed(b) : b]
    heap.HEAP32.set([1, m, k, 1, k, n], shapes >>> 2)
    const multiply = (idA: number, idB: number, idOut: number) => heap._BatchMatMul(idA, shapes, 3, idB, shapes + 12, 3, 0, 0, idOut)
    if (constants.has(right.dataId) && Math.max(...batches) === 1) {
      multiply(...([left, right, out].map(({ dataId }) => backend.dataIdMap.get(dataId).id) as [number, number, number]))
    } else {
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
        multiply(viewA, viewB, viewOut)
        // Forgets the view and what was packed for it; the memory stays with the tensor that it shows.
        heap.tfjs.disposeData(viewA)
        heap.tfjs.disposeData(viewB)
        heap.tfjs.disposeData(viewOut)
      }
    }
    if (transposeA) backend.disposeData(left.dataId)
    if (transposeB) backend.disposeData(right.dataId)
  }
}

/** A heap of 32-bit addresses ends at 4 GB. Unchecked, the null pointer of a failed allocation is used and the process dies of it later. */
function guardHeap(heap: Heap): void {
  if (heap._malloc.name === 'guardedMalloc') return
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
