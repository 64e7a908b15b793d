import { expect, test } from 'vitest'

import { resumeClock, steadyNow } from './clock.ts'

const HOUR_MS = 3_600_000

test('time goes on from the latest stamp of an earlier process, unless its clock was plainly wrong', () => {
  resumeClock(0)
  resumeClock(Date.now() + 48 * HOUR_MS)
  expect(steadyNow() - Date.now()).toBeLessThan(1_000)
  const stamp = Date.now() + HOUR_MS
  resumeClock(stamp)
  expect(steadyNow()).toBeGreaterThanOrEqual(stamp)
  expect(steadyNow() - stamp).toBeLessThan(60_000)
})
