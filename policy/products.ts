// Products of activations with weights that stay as they are: all that costs a decoder time. Three ways, of which the fastest that is there is taken.
// In each, a row's result depends on that row alone: an answer must not change with what is decoded beside it. So which way is taken may
// depend on the matrix, never on how many rows there are.

import { loadBlas, type Sgemm } from './blas.ts'

/** Whatever is multiplied has room for so many rows, in x and in y: a product may read and write rows that nobody asked for. */
export const LEAST_ROWS = 32

/** Multiplies the first `rows` rows: `y` [rows, out] = `x` [rows, into] · `weight` [out, into] transposed. */
export type Product = (x: Float32Array, rows: number, y: Float32Array) => void

export interface Products {
  /** For a person: what multiplies. */
  readonly line: string
  /** `weight` [out, into], row-major, must not change from now on. */
  prepare(weight: Float32Array, out: number, into: number): Product
}

export interface ProductOptions {
  readonly kernels: 'auto' | 'blas' | 'plain'
}

export async function openProducts({ kernels }: ProductOptions): Promise<Products> {
  const blas = kernels === 'plain' ? null : await loadBlas()
  if (blas) return { line: `matrices by ${blas.library}`, prepare: blasProducts(blas.sgemm) }
  if (kernels === 'blas')
    throw new Error('kernels blas: no OpenBLAS found; install it (Debian: libopenblas0-pthread), or use kernels: auto')
  return { line: 'matrices by plain loops', prepare: plainProduct }
}

/**
 * OpenBLAS takes other kernels, which round differently, for a product of fewer than a million multiplications, and for a single row. Rows are added
 * to stay above; matrices that would need more than LEAST_ROWS of them are left to the loops.
 */
const blasProducts =
  (sgemm: Sgemm) =>
  (weight: Float32Array, out: number, into: number): Product => {
    const least = Math.ceil((1_000_000 + 1) / (out * into))
    if (least > LEAST_ROWS) return plainProduct(weight, out, into)
    return (x, rows, y) => sgemm(false, true, Math.max(rows, least, 2), out, into, x, weight, y)
  }

/** Four outputs at a time: each x is loaded once for four products, and four sums run side by side. */
function plainProduct(weight: Float32Array, out: number, into: number): Product {
  const whole = out - (out % 4)
  return (x, rows, y) => {
    for (let o = 0; o < whole; o += 4) {
      const [w0, w1, w2, w3] = [o * into, (o + 1) * into, (o + 2) * into, (o + 3) * into]
      for (let r = 0; r < rows; r++) {
        const from = r * into
        let [s0, s1, s2, s3] = [0, 0, 0, 0]
        for (let i = 0; i < into; i++) {
          const value = x[from + i]!
          s0 += value * weight[w0 + i]!
          s1 += value * weight[w1 + i]!
          s2 += value * weight[w2 + i]!
          s3 += value * weight[w3 + i]!
        }
        const to = r * out + o
        y[to] = s0
        y[to + 1] = s1
        y[to + 2] = s2
        y[to + 3] = s3
      }
    }
    for (let o = whole; o < out; o++) {
      for (let r = 0; r < rows; r++) {
        let sum = 0
        for (let i = 0; i < into; i++) sum += x[r * into + i]! * weight[o * into + i]!
        y[r * out + o] = sum
      }
    }
  }
}
