// What spans say of their run, whether they are read or stay bytes.

import { expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { traceIdOf } from '../test/spans.ts'
import type { Stranger } from './item_reader.ts'
import { noteTaker, type Notes } from './notes.ts'
import { fromJson } from './otlp_json.ts'
import { readRaw } from './read.ts'
import { scan } from './scan.ts'
import type { Span } from './span.ts'
import { rawItem } from './span_batch.ts'

const random = seeded(9)
const pick = <T>(from: readonly T[]): T => from[random(from.length)]!
/** Some differ in one word of two. */
const time = () =>
  pick([0n, BigInt(random(9)), BigInt(random(9)) << 32n, (7n << 32n) + BigInt(random(9)), 2n ** 64n - 1n - BigInt(random(9))])

const someSpan = (_: unknown, i: number) => ({
  traceId: traceIdOf(pick(['a', 'a', 'a', 'b'])),
  spanId: String(i + 1).padStart(16, '0'),
  ...(random(3) === 0 ? {} : { parentSpanId: '00000000000000ff' }),
  ...(random(9) === 0 ? { flags: 0x300 } : {}),
  name: 'GET',
  startTimeUnixNano: String(time()),
  endTimeUnixNano: String(time()),
  status: { code: random(3) },
})

const listed = ({ keys, ...notes }: Notes) => ({ ...notes, keys: keys.list() })

test('what spans say is what they say as bytes, and as it is by definition', () => {
  for (let run = 0; run < 300; run++) {
    const resource = { attributes: [{ key: pick(['session.id', 'leyden.task.id']), value: { stringValue: 'x' } }] }
    const spans = Array.from({ length: random(6) }, someSpan)
    const { batch } = scan('traces', fromJson('traces', { resourceSpans: [{ resource, scopeSpans: [{ spans }] }] }))
    const raws = Array.from({ length: batch.count }, (_, i) => rawItem(batch, i) as Stranger)
    const read = raws.map((raw) => readRaw(raw) as Span)
    const takers = [noteTaker('session', []), noteTaker('session', []), noteTaker('session', [])] as const
    raws.forEach((raw, i) => {
      takers[0].note(raw)
      takers[1].note(read[i]!)
      takers[2].note(pick([raw, read[i]!]))
    })
    const [ofBytes, ofSpans, ofBoth] = takers.map(({ notes }) => listed(notes()))
    expect(ofBytes).toEqual(ofSpans)
    expect(ofBoth).toEqual(ofSpans)
    const least = (times: bigint[]) => times.reduce((a, b) => (b !== 0n && (a === 0n || b < a) ? b : a), 0n)
    const most = (times: bigint[]) => times.reduce((a, b) => (b > a ? b : a), 0n)
    const started = least(read.map((span) => span.start_time))
    const ended = most(read.map((span) => span.end_time))
    expect(ofSpans).toMatchObject({
      started_at: started,
      ended_at: ended > started ? ended : started,
      trace_ids: [...new Set(read.map((span) => span.trace_id))],
      complete: read.some((span) => span.end_time > 0n && (span.parent_span_id === '' || span.remote_parent)),
    })
  }
})
