import { expect, test } from 'vitest'

import { fixture, flat } from '../../test/training.ts'
import { valueLoss } from './value.ts'

const { vpred, v_old, returns, mask, expected } = fixture('09_value_entropy')
const [values, old, targets] = [flat(vpred, mask), flat(v_old, mask), flat(returns, mask)]

test.each([
  [0.2, expected['vf_loss_clip0.2']],
  [0.5, expected['vf_loss_clip0.5']],
  [Infinity, expected.vf_loss_noclip],
])('fixtures/rl/09: value loss, clipped at %f', (clip, wanted) => {
  const losses = values.map((value, t) => valueLoss(value, old[t]!, targets[t]!, clip).value)
  expect(losses.reduce((sum, loss) => sum + loss, 0) / losses.length).toBeCloseTo(wanted, 9)
})
