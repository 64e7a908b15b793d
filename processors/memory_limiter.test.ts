import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

import { conforms, configure, problems, spanBatch, testContext } from '../test/conformance.ts'
import memory_limiter from './memory_limiter.ts'

conforms(memory_limiter, { limit_mib: 100_000 })

test('items pass while memory is below the soft limit', async () => {
  const context = testContext()
  const limiter = configure(memory_limiter, { limit_mib: 100_000 }, context)
  await limiter.start?.()
  const batch = spanBatch()
  expect(limiter.process(batch)).toBe(batch)
  expect(context.counts).toEqual({ processor_memory_limiter_accepted_spans: 2 })
  await limiter.shutdown?.()
})

test('items are refused while memory is above it, and it is said once', async () => {
  const context = testContext({ signal: 'logs' })
  const limiter = configure(memory_limiter, { limit_mib: 2, spike_limit_mib: 1, check_interval: '1ms' }, context)
  await limiter.start?.()
  expect(() => limiter.process(spanBatch())).toThrow('data refused due to high memory usage')
  await new Promise((resolve) => setTimeout(resolve, 20))
  await limiter.shutdown?.()
  expect(context.counts).toEqual({ processor_memory_limiter_refused_log_records: 2 })
  expect(context.lines.map(({ text }) => text)).toEqual(['warn Memory usage is above soft limit. Refusing data.'])
})

test('items are refused while the heap is near its own limit, however much memory there is', async () => {
  const module = new URL('../dist/processors/memory_limiter.js', import.meta.url).href
  const script = `
    import limiter from '${module}'
    const none = () => {}
    const context = { signal: 'traces', count: none, log: { info: none, warn: none } }
    const config = { check_interval: 10, limit_mib: 100_000, spike_limit_mib: 0, limit_percentage: 0, spike_limit_percentage: 0 }
    const held = Array.from({ length: Number(process.argv[1]) }, () => Array(1_000).fill(0.5)) // 8 KB each
    const { start, process: take } = limiter.create(config, context)
    await start()
    try {
      take({ count: 1, body: '' })
      console.log('taken')
    } catch (error) {
      console.log(error.message)
    }
    process.exit(held.length === 0 ? 1 : 0)`
  const holding = async (lists: number) => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--max-old-space-size=100',
      '--max-semi-space-size=1',
      '--input-type=module',
      '-e',
      script,
      String(lists),
    ])
    return stdout.trim()
  }
  expect(await holding(1)).toBe('taken')
  expect(await holding(10_700)).toBe('data refused due to high memory usage')
})

test('a limit may be a share of the memory there is', async () => {
  const [tight, wide] = [{ limit_percentage: 0.01 }, { limit_percentage: 100, spike_limit_percentage: 1 }].map((options) =>
    configure(memory_limiter, options),
  )
  await tight?.start?.()
  await wide?.start?.()
  expect(() => tight?.process(spanBatch())).toThrow('data refused')
  expect(wide?.process(spanBatch())).toBeDefined()
  await tight?.shutdown?.()
  await wide?.shutdown?.()
})

test.each([
  [{ limit_mib: 10, check_interval: '0s' }, "'check_interval' must be greater than zero"],
  [{}, "'limit_mib' or 'limit_percentage' must be greater than zero"],
  [{ limit_mib: 10, spike_limit_mib: 10 }, "'spike_limit_mib' must be smaller than 'limit_mib'"],
  [{ limit_percentage: 50, spike_limit_percentage: 60 }, "'spike_limit_percentage' must be smaller than 'limit_percentage'"],
])('the options %j are refused', (options, message) => {
  expect(problems(memory_limiter, options)).toEqual([expect.stringContaining(message)])
})
