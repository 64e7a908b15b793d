// The clock is set back while Leyden runs: rollouts are closed as if it had not been, and a restart finds nothing left to do.

import { afterEach, expect, test, vi } from 'vitest'

import { openStorage } from '../storage/open.ts'
import { startLeyden, type Leyden } from './leyden.ts'
import { chat, traceIdOf, traces } from './spans.ts'

const HOUR_MS = 3_600_000

let leyden: Leyden
afterEach(async () => {
  vi.restoreAllMocks()
  await leyden.remove()
})

test('a clock that is set back an hour neither holds up a rollout nor has it read again', async () => {
  leyden = await startLeyden()
  const send = async (trace: string, spans: Parameters<typeof traces>[1]) =>
    expect((await leyden.post('traces', traces(trace, spans))).status).toBe(200)
  await send('open', [{ id: 'o0' }])

  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() - HOUR_MS)
  await send('open', [chat('o1', { parent: 'o0' })])
  await send('after', [{ id: 'a0' }, chat('a1', { parent: 'a0' })])
  const rows = await leyden.rows<{ trace_id: string }>(2, 'SELECT trace_id FROM transitions ORDER BY trace_id')
  expect(rows.map(({ trace_id }) => trace_id)).toEqual([traceIdOf('open'), traceIdOf('after')].sort())

  await send('late', [{ id: 'l0' }])
  await leyden.rows(3, 'SELECT 1 FROM rollouts FINAL')
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  expect(await storage.uncovered()).toEqual([])
  await storage.close()
})
