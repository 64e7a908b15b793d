import { once } from 'node:events'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'

import { expect, test } from 'vitest'

import { openBackend } from './backend.ts'
import { loadBlas } from './blas.ts'

test.each([
  ['cpu', 'plain JavaScript'],
  ['wasm', 'WebAssembly, matrices by '],
] as const)('%s says in one line what it is and how fast', async (backend, line) => {
  const opened = await openBackend({ backend, kernels: 'auto' })
  expect(opened).toMatchObject({ name: backend, line: expect.stringMatching(new RegExp(`^${line}.*, [\\d.e+]+ GFLOP/s$`)) as string })
  expect(opened.tf.getBackend()).toBe(backend)
})

test('auto takes WebAssembly where no GPU is, with BLAS where there is one', async () => {
  expect(await openBackend({ backend: 'auto', kernels: 'auto' })).toMatchObject({
    name: 'wasm',
    kernels: (await loadBlas()) ? 'blas' : 'decomp',
  })
})

test('what is asked for by name and absent is an error that says what to do', async () => {
  await expect(openBackend({ backend: 'node-gpu', kernels: 'auto' })).rejects.toThrow(
    /backend node-gpu: @tensorflow\/tfjs-node-gpu does not load, see docs\/gpu\.md/,
  )
  expect(await loadBlas({ LEYDEN_BLAS: '/nowhere.so' })).toBeNull()
})

test('a worker thread has a backend of its own', async () => {
  const built = pathToFileURL(join(import.meta.dirname, '../dist/policy/backend.js')).href
  const code = `
    const { parentPort } = require('node:worker_threads')
    import(${JSON.stringify(built)})
      .then(({ openBackend }) => openBackend({ backend: 'wasm', kernels: 'decomp' }))
      .then(({ tf, kernels }) => parentPort.postMessage([kernels, ...tf.matMul([[1, 2]], [[3], [4]]).dataSync()]))`
  const worker = new Worker(code, { eval: true })
  expect(await once(worker, 'message')).toEqual([['decomp', 11]])
  await worker.terminate()
})
