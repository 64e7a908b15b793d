import { describe, expect, test } from 'vitest'

import { conforms, problems } from '../test/conformance.ts'
import trainer from './trainer.ts'

const base = './models/base'

describe('trainer', () => {
  conforms(trainer, { base })

  test('a schedule that ends needs to know where', () => {
    expect(problems(trainer, { base, schedule: 'cosine' })).toEqual(['schedule: must be constant where "steps" is not set (got "cosine")'])
    expect(problems(trainer, { base, schedule: 'cosine', steps: 100 })).toEqual([])
  })

  test('an algorithm has its options below its own name, checked like any other', () => {
    expect(problems(trainer, { base, algorithm: 'grpo', grpo: { clip_high: 0.28 } })).toEqual([])
    expect(problems(trainer, { base, grpo: { clip_hihg: 0.28 } })).toEqual([
      'trainer::grpo::clip_hihg: unknown option, did you mean "clip_high"?',
    ])
  })
})
