import { expect, test } from 'vitest'

import type { TrainingStep } from '../storage/training.ts'
import { textReporter } from './report.ts'

const step: TrainingStep = {
  ...{ step: 7, algorithm: 'grpo', learning_rate: 1e-5, groups: 12, rollouts: 96, transitions: 190, rows: 96, tokens: 51_200 },
  ...{ trained_tokens: 9_000, dropped_groups: 3, refused: {}, staleness: 0.5, reward: 0.4321, success: 0.44, loss: 0 },
  ...{ kl: 0.00123, entropy: 1.5, clip_fraction: 0.025, weight_mean: 1, weight_ess: 0.99, weight_truncated: 0, grad_norm: 0.5 },
  ...{ metrics: {}, waited: 2.25, seconds: 20.04 },
}
const waiting = { step: 8, ready: 3, wanted: 12, without_signal: 2 }

function written(terminal: boolean) {
  let text = ''
  return { ...textReporter((more) => (text += more), terminal), text: () => text }
}

test('a step is one line', () => {
  const { step: told, text } = written(false)
  told(step, { version: 7, status: 'live' })
  expect(text()).toBe(
    'step 7  reward 0.432  success 0.44  KL 0.0012  entropy 1.500  clipped 2.5 %  12 groups (3 without signal)  2,555 tokens/s  20.0 s after 2.3 s  version 7 live\n',
  )
})

test('while it waits a terminal has a bar, which the next line takes the place of', () => {
  const reporter = written(true)
  reporter.waiting(waiting)
  const bar = '\r\u001b[Kstep 8  waits  ██████░░░░░░░░░░░░░░░░░░  3 of 12 groups, 2 more without signal'
  expect(reporter.text()).toBe(bar)
  reporter.note('a note')
  reporter.note('another')
  expect(reporter.text()).toBe(`${bar}\r\u001b[Ka note\nanother\n`)
})

test('elsewhere a wait is told of now and then, not each time that it is asked for', () => {
  const reporter = written(false)
  for (let i = 0; i < 100; i++) reporter.waiting(waiting)
  expect(reporter.text().split('\n')).toEqual([expect.stringContaining('3 of 12 groups'), ''])
})
