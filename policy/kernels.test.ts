import * as tf from '@tensorflow/tfjs-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { openBackend } from './backend.ts'
import { loadBlas } from './blas.ts'

/** Numbers of a shape, the same on every backend. */
const numbers = (shape: number[], seed: number) =>
  tf.tensor(
    Float32Array.from({ length: tf.util.sizeFromShape(shape) }, (_, i) => Math.sin(seed + i * 1.7)),
    shape,
  )

/** The result on the plain JavaScript backend: stock TensorFlow.js. */
async function reference(work: () => tf.Tensor): Promise<Float32Array> {
  const current = tf.getBackend()
  await openBackend({ backend: 'cpu', kernels: 'auto' })
  const values = tf.tidy(() => work().dataSync<'float32'>())
  await tf.setBackend(current)
  return values
}

const blas = await loadBlas()

describe.each(['decomp', ...(blas ? ['blas' as const] : [])] as const)('%s', (kernels) => {
  beforeAll(async () => {
    await openBackend({ backend: 'wasm', kernels })
  })
  afterAll(() => expect(tf.memory().numTensors).toBe(0))

  test.each<[string, number[], number[]]>([
    ['two matrices', [7, 5], [5, 3]],
    ['vectors as matrices', [1, 9], [9, 1]],
    ['batches', [3, 7, 5], [3, 5, 4]],
    ['batches of batches', [2, 3, 7, 5], [2, 3, 5, 4]],
    ['one matrix against a batch', [4, 6, 5], [1, 5, 3]],
    ['more rows than are taken at a time', [1300, 6], [6, 9]],
  ])('%s are multiplied as by the cpu backend, transposed or not', async (_, a, b) => {
    const turned = (shape: readonly number[]) => [...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!]
    for (const transposeA of [false, true]) {
      for (const transposeB of [false, true]) {
        const work = () => tf.matMul(numbers(transposeA ? turned(a) : a, 1), numbers(transposeB ? turned(b) : b, 2), transposeA, transposeB)
        expectClose(
          tf.tidy(() => work().dataSync<'float32'>()),
          await reference(work),
        )
      }
    }
  })

  test('many rows, transposed, sum to what the cpu backend says', async () => {
    const work = () => tf.matMul(numbers([1300, 6], 1), numbers([1300, 9], 2), true)
    expectClose(
      tf.tidy(() => work().dataSync<'float32'>()),
      await reference(work),
    )
  })

  test('a right-hand side seen in several shapes, which the stock kernel packs but once', async () => {
    const work = () => {
      const flat = numbers([4, 6], 3)
      return tf.concat([
        tf.reshape(tf.matMul(numbers([2, 4], 1), flat), [12]),
        tf.reshape(tf.matMul(numbers([2, 6], 2), tf.reshape(flat, [6, 4])), [8]),
      ])
    }
    expectClose(
      tf.tidy(() => work().dataSync<'float32'>()),
      await reference(work),
    )
  })

  test('matrices that do not fit are refused', () => {
    tf.tidy(() => {
      expect(() => tf.matMul(numbers([2, 2, 3], 1), numbers([3, 3, 5], 2))).toThrow('matMul of [2,2,3] and [3,3,5] does not fit')
    })
  })

  test('rows are gathered, and sums of rows scattered, as by the cpu backend', async () => {
    const indices = () => tf.tensor1d([3, 0, 3, 5, 1], 'int32')
    for (const work of [
      () => tf.gather(numbers([6, 4], 1), indices()),
      () => tf.gather(numbers([6], 1), indices()),
      () => tf.unsortedSegmentSum(numbers([5, 4], 2), indices(), 7),
    ]) {
      expectClose(
        tf.tidy(() => work().dataSync<'float32'>()),
        await reference(work),
      )
    }
  })

  test('what does not fit on the heap is an error, and the heap lives on', async () => {
    const blocks: tf.Tensor[] = []
    try {
      expect(() => {
        for (let i = 0; i < 5; i++) blocks.push(emptyGigabyte())
      }).toThrow(/the WebAssembly heap \(at most 4 GB\) is full: 1024 MB more were wanted/)
    } finally {
      tf.dispose(blocks)
    }
    expect(tf.tidy(() => tf.add(1, 2).dataSync())).toEqual(Float32Array.of(3))
  })
})

/** Allocated, never touched. */
function emptyGigabyte(): tf.Tensor {
  const backend = tf.backend() as tf.KernelBackend & { makeOutput(shape: number[], dtype: 'float32'): tf.TensorInfo }
  return tf.engine().makeTensorFromTensorInfo(backend.makeOutput([2 ** 28], 'float32'))
}

function expectClose(found: Float32Array, wanted: Float32Array): void {
  expect(found.length).toBe(wanted.length)
  for (let i = 0; i < wanted.length; i++)
    expect(Math.abs(found[i]! - wanted[i]!), `place ${i}`).toBeLessThan(1e-5 * (1 + Math.abs(wanted[i]!)))
}
