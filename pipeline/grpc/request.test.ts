import { expect, test } from 'vitest'

import { requestBlock } from '../../test/raw_h2.ts'
import { seeded } from '../../test/random.ts'
import { createHpackDecoder, type Field } from './hpack.ts'
import { createRequestReader } from './request.ts'

test('whatever came before, a request is what its own headers say', () => {
  const random = seeded(1)
  const pick = <T>(...choices: T[]): T => choices[random(choices.length)]!
  const field = (name: string, value: string): Field =>
    createHpackDecoder(1_000)
      .decode(requestBlock({ [name]: value }))!
      .find((one) => one.name === name)!
  // As a connection's table has them: the same objects with each request.
  const known = [
    ':method=POST',
    ':scheme=http',
    ':path=/a',
    ':path=/b',
    'te=trailers',
    'content-type=application/grpc',
    'x-key=1',
    'x-key=2',
  ]
  const table = new Map(known.map((text) => [text, field(...(text.split('=') as [string, string]))]))
  const timeouts = ['20S', '19999980u', '19999981u', '5', '999999999u', 'S', '12x', ' 5S'].map((value) => field('grpc-timeout', value))
  const read = createRequestReader()
  const told = { again: 0, failed: 0 }
  let before = ''
  for (let run = 0; run < 1_500; run++) {
    const path = random(8) === 0 ? pick(':path=/a', ':path=/b') : ':path=/a'
    const fields = [':method=POST', ':scheme=http', path, 'te=trailers', 'content-type=application/grpc'].map((text) => table.get(text)!)
    if (random(3) > 0) fields.push(pick(...timeouts.slice(0, random(4) === 0 ? timeouts.length : 3)))
    if (random(8) === 0) fields.push(table.get(pick('x-key=1', 'x-key=2'))!)
    if (random(20) === 0) fields.push(pick(...timeouts))
    const fresh = outcome(createRequestReader(), fields)
    expect(outcome(read, fields)).toEqual(fresh)
    if (JSON.stringify(fresh) === before) told.again++
    if (typeof fresh === 'string') told.failed++
    before = JSON.stringify(fresh)
  }
  expect(Math.min(told.again, told.failed)).toBeGreaterThan(50)
})

function outcome(read: ReturnType<typeof createRequestReader>, fields: readonly Field[]) {
  try {
    const request = read(fields)
    return request && { ...request, metadata: ['te', 'x-key'].map(request.metadata) }
  } catch (error) {
    return String(error)
  }
}
