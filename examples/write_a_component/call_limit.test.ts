import { expect, test } from 'vitest'

import { configure, conforms, rollout } from '../../test/conformance.ts'
import call_limit from './call_limit.ts'

conforms(call_limit)

test.each([
  [2, 'succeeded'],
  [3, 'limit'],
])('a rollout of %i calls, of which 2 are allowed, has the status %s', (calls, status) => {
  const limited = configure(call_limit, { max_calls: 2 }).process(rollout({ calls }))
  expect(limited.status).toBe(status)
})
