// Chooses what TensorFlow.js computes on: a GPU through tfjs-node-gpu where its addon loads, else WebAssembly with our kernels, plain JavaScript last.
// There is one backend per thread, since TensorFlow.js keeps its state in globals: what was opened last is in effect.

import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

import type * as TF from '@tensorflow/tfjs-core'

import { loadBlas } from './blas.ts'
import { installKernels } from './kernels.ts'

export interface BackendOptions {
  readonly backend: 'auto' | 'node-gpu' | 'wasm' | 'cpu'
  /** How the wasm backend multiplies matrices: `blas` is three times faster and needs OpenBLAS, `decomp` needs nothing. */
  readonly kernels: 'auto' | 'blas' | 'decomp'
}

export interface Backend {
  readonly tf: typeof TF
  readonly name: 'node-gpu' | 'wasm' | 'cpu'
  readonly kernels: 'stock' | 'blas' | 'decomp'
  /** For a person: what was chosen and how fast it multiplies matrices. */
  readonly line: string
}

const PROBE_MS = 200

/** Loads TensorFlow.js and makes the chosen backend current. Throws when what was asked for by name is not there. */
export async function openBackend({ backend, kernels }: BackendOptions): Promise<Backend> {
  if (backend === 'node-gpu' || (backend === 'auto' && kernels === 'auto')) {
    const gpu = await openNodeGpu(backend === 'node-gpu')
    if (gpu) return gpu
  }
  return backend === 'cpu' ? openCpu() : openWasm(kernels)
}

/** Null when nobody asked for it by name and it is absent or sees no GPU: TensorFlow on CPUs is no faster than `blas`. */
async function openNodeGpu(required: boolean): Promise<Backend | null> {
  // Not a dependency: a name in a variable keeps the compiler from looking for it.
  const addon = '@tensorflow/tfjs-node-gpu'
  process.env['TF_FORCE_GPU_ALLOW_GROWTH'] ??= 'true'
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '2'
  // TF32 rounds factors to ten bits: log-probabilities would differ from those that the decoder sampled with.
  process.env['NVIDIA_TF32_OVERRIDE'] ??= '0'
  try {
    const module = (await import(addon)) as { default: typeof TF }
    const tf = module.default
    await tf.setBackend('tensorflow')
    const gpu = (tf.backend() as TF.KernelBackend & { isUsingGpuDevice: boolean }).isUsingGpuDevice
    if (!gpu && !required) return null
    const line = await probe(tf, `TensorFlow on ${gpu ? 'a GPU' : 'CPUs'}`, gpu ? 2048 : 256)
    return { tf, name: 'node-gpu', kernels: 'stock', line }
  } catch (error) {
    if (!required) return null
    throw new Error(`backend node-gpu: ${addon} does not load, see docs/gpu.md (${(error as Error).message.split('\n')[0]})`)
  }
}

async function openWasm(wanted: BackendOptions['kernels']): Promise<Backend> {
  const tf = await loadCore()
  const { setWasmPaths } = await import('@tensorflow/tfjs-backend-wasm').catch(missing('@tensorflow/tfjs-backend-wasm'))
  const manifest = createRequire(import.meta.url).resolve('@tensorflow/tfjs-backend-wasm/package.json')
  if (tf.getBackend() !== 'wasm') {
    setWasmPaths(join(dirname(manifest), 'wasm-out', '/'))
    if (!(await tf.setBackend('wasm'))) throw new Error('backend wasm: WebAssembly does not start here; use backend: cpu')
  }
  const blas = wanted === 'decomp' ? null : await loadBlas()
  if (wanted === 'blas' && !blas) {
    throw new Error(
      'kernels blas: no OpenBLAS found; install it (Debian: libopenblas0-pthread), name its file in LEYDEN_BLAS, or use kernels: decomp',
    )
  }
  installKernels(tf, blas)
  const line = await probe(tf, `WebAssembly, matrices by ${blas ? blas.library : 'XNNPACK'}`, 256)
  return { tf, name: 'wasm', kernels: blas ? 'blas' : 'decomp', line }
}

async function openCpu(): Promise<Backend> {
  const tf = await loadCore()
  await import('@tensorflow/tfjs-backend-cpu').catch(missing('@tensorflow/tfjs-backend-cpu'))
  await tf.setBackend('cpu')
  // Its first use would print an advertisement for the native backend.
  ;(tf.backend() as TF.KernelBackend & { firstUse: boolean }).firstUse = false
  return { tf, name: 'cpu', kernels: 'stock', line: await probe(tf, 'plain JavaScript', 64) }
}

const measured = new Map<string, string>()

/** Multiplies square matrices for a fifth of a second; once per thread and way of doing it. */
async function probe(tf: typeof TF, way: string, size: number): Promise<string> {
  const known = measured.get(way)
  if (known) return known
  const a = tf.ones([size, size])
  const multiply = async () => {
    const product = tf.matMul(a, a)
    await product.data()
    product.dispose()
  }
  await multiply() // kernels are set up, memory grows
  const start = performance.now()
  let count = 0
  for (; performance.now() - start < PROBE_MS; count++) await multiply()
  a.dispose()
  const flops = (2 * size ** 3 * count * 1000) / (performance.now() - start)
  const line = `${way}, ${(flops / 1e9).toPrecision(2)} GFLOP/s`
  measured.set(way, line)
  return line
}

function loadCore(): Promise<typeof TF> {
  return import('@tensorflow/tfjs-core').catch(missing('@tensorflow/tfjs-core'))
}

function missing(name: string): (error: Error) => never {
  return (error) => {
    throw new Error(`policies need the package ${name}, which is not installed (it is an optional dependency): ${error.message}`)
  }
}
