import { expect, test } from 'vitest'

import { openRollouts, type Taken } from '../data/open_rollouts.ts'
import { fromJson } from '../data/otlp_json.ts'
import { hintsOf } from '../data/routing.ts'
import { scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { spanMemory } from '../data/span_memory.ts'
import { traceOwners } from '../data/trace_owners.ts'
import { seeded } from '../test/random.ts'
import { rowsIn } from '../test/rows.ts'
import { traces } from '../test/spans.ts'
import { addArrived, arriving, attachRewards, claimTraces, type Books } from './arrivals.ts'

const LIMITS = { root_grace: 1e9, idle_timeout: 1e9, max_age: 1e9, max_spans: 7, max_bytes: 1e9 }

function booksOf() {
  const memory = spanMemory({ limit: 1e6 })
  const open = openRollouts(LIMITS, memory)
  const owners = traceOwners(open.rename)
  const late = { take: () => false, opened: () => {} } as unknown as Books['late']
  return { books: { open, owners, late }, memory }
}

/** Spans of few traces and few rollouts, of which some name theirs, link to another trace, or are records of one call. */
function randomBatch(random: ReturnType<typeof seeded>, n: number) {
  const spans = Array.from({ length: 1 + random(6) }, (_, i) => ({
    id: `${n}-${i}`,
    trace: `t${random(6)}`,
    scope: random(2) === 0 ? 'one' : 'other',
    links: random(8) === 0 ? [`t${random(6)}`] : [],
    attributes: {
      ...(random(5) === 0 && { 'leyden.rollout.id': `r${random(4)}` }),
      ...(random(6) === 0 && { 'gen_ai.response.id': `c${random(5)}` }),
    },
  }))
  return scan('traces', fromJson('traces', traces('', spans))).batch
}

/** All that was closed, with what it had. */
function closedOf(seed: number, forgetful: boolean) {
  const random = seeded(seed)
  const { books, memory } = booksOf()
  const closed: ReturnType<typeof told>[] = []
  for (let n = 0; n < 60; n++) {
    const arrived = arriving(...hinted(randomBatch(random, n)))
    claimTraces(books, arrived)
    addArrived(books, arrived, { rows: rowsIn(memory, arrived.batch), refused: [], homeless: () => {} })
    if (random(10) === 0) attachRewards(books, `r${random(4)}\u0000`, [arrived.traces.known[0]!.id])
    if (forgetful) books.open.forgetTraces()
    if (random(4) === 0) closed.push(...dueOf(books, n))
  }
  return [...closed, ...dueOf(books, Infinity)]
}

/** Those that become due together are in the order of the clock. */
const dueOf = ({ open }: Books, now: number) =>
  open
    .takeDue(now)
    .map(told)
    .sort((a, b) => (a.key < b.key ? -1 : 1))

const hinted = (batch: SpanBatch) => [batch, hintsOf(batch, 'trace')] as const

const told = ({ rollout: { key, traces, count, bytes, held, late }, closed_by }: Taken) => ({
  ...{ key, closed_by, count, bytes, late, traces: [...traces].sort() },
  items: held?.items.map(({ payload }) => payload.toString('hex')),
})

test('what is remembered of a trace says the same as looking for its rollout each time', () => {
  for (let seed = 1; seed <= 30; seed++) expect(closedOf(seed, false)).toEqual(closedOf(seed, true))
})
