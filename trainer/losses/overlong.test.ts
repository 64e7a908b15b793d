import { expect, test } from 'vitest'

import { fixture } from '../../test/training.ts'
import { overlongPenalty } from './overlong.ts'

test('fixtures/rl/10: from 0 to -1 over the buffer', () => {
  const { max_len, cache, lengths, expected } = fixture('10_dapo').soft_overlong
  for (const [i, length] of lengths.entries()) expect(overlongPenalty(length, max_len, cache)).toBeCloseTo(expected[i], 9)
})
