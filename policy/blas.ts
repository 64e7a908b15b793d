// OpenBLAS (or macOS Accelerate) through koffi: one function, called on views of memory that TensorFlow.js already holds. Nothing is copied.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

import type { LibraryHandle } from 'koffi'

/** C = op(A) · op(B), row-major, one matrix: op(A) is [m, k], op(B) [k, n], C [m, n]. */
export type Sgemm = (
  transposeA: boolean,
  transposeB: boolean,
  m: number,
  n: number,
  k: number,
  a: Float32Array,
  b: Float32Array,
  c: Float32Array,
) => void

export interface Blas {
  readonly sgemm: Sgemm
  /** The file it was loaded from. */
  readonly library: string
}

/** cblas.h */
const ROW_MAJOR = 101
const NO_TRANSPOSE = 111
const TRANSPOSE = 112

/** Finds a BLAS with the C interface and loads it; null where there is none, or no koffi for this platform. */
export async function loadBlas(env: NodeJS.ProcessEnv = process.env): Promise<Blas | null> {
  const koffi = await import('koffi').catch(() => null)
  if (!koffi) return null
  for (const library of candidates(env)) {
    try {
      const loaded = koffi.default.load(library)
      const cblas = loaded.func(
        'void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const void *a, int lda, const void *b, int ldb, float beta, void *c, int ldc)',
      )
      if (!env['OPENBLAS_NUM_THREADS']) useOneThread(loaded)
      const sgemm: Sgemm = (ta, tb, m, n, k, a, b, c) => {
        const [lda, ldb] = [ta ? m : k, tb ? k : n]
        cblas(ROW_MAJOR, ta ? TRANSPOSE : NO_TRANSPOSE, tb ? TRANSPOSE : NO_TRANSPOSE, m, n, k, 1, a, lda, b, ldb, 0, c, n)
      }
      return { sgemm, library }
    } catch {
      // Not there, or a BLAS without cblas_sgemm: the next one.
    }
  }
  return null
}

/** A policy's matrices are small: a second thread gains a tenth, and loses everything where another process wants the core. */
function useOneThread(library: LibraryHandle): void {
  try {
    library.func('void openblas_set_num_threads(int n)')(1)
  } catch {
    // Accelerate has no such function.
  }
}

/** Where distributions put it. LEYDEN_BLAS names another file. */
function candidates(env: NodeJS.ProcessEnv): string[] {
  if (env['LEYDEN_BLAS']) return [env['LEYDEN_BLAS']]
  if (process.platform === 'darwin') {
    return ['/System/Library/Frameworks/Accelerate.framework/Accelerate', '/opt/homebrew/opt/openblas/lib/libopenblas.dylib']
  }
  const machine = process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu'
  const folders = [`/usr/lib/${machine}/openblas-pthread`, `/usr/lib/${machine}`, '/usr/lib64', '/usr/lib', '/usr/local/lib']
  return folders.filter(existsSync).flatMap((folder) =>
    readdirSync(folder)
      .filter((file) => /^libopenblas(p|o)?\.so/.test(file))
      .sort()
      .map((file) => join(folder, file)),
  )
}
