import { expect, test } from 'vitest'

import { fuzzRequest } from './fuzz_requests.ts'
import { fuzz } from './fuzz_receiver.ts'

// `npm run fuzz -- --runs 1000000` is the same, for longer.
test('20,000 damaged requests neither end nor hold up the receiver, and each gets a legal answer', { timeout: 240_000 }, async () => {
  const { answers, failures } = await fuzz({ seed: 1, offset: 0, runs: 20_000 })
  expect(failures).toEqual([])
  expect(Object.values(answers).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(20_000)
  expect(Object.keys(answers)).toEqual(expect.arrayContaining(['http 200', 'http 400', 'grpc 0', 'grpc 3']))
})

test('a run of a seed is the same request whichever came before', () => {
  const alone = fuzzRequest(7, 1_234)
  for (let run = 1_200; run < 1_234; run++) fuzzRequest(7, run)
  expect(fuzzRequest(7, 1_234)).toEqual(alone)
})
