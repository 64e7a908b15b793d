// Reading alone: a request's spans scanned, beside protobufjs; one rollout's spans from bytes to calls, tools and rewards, and what a span
// costs that no dialect wants.

import { readItems } from '../data/reading.ts'
import { readItem, scan } from '../data/scan.ts'
import type { Item, Span } from '../data/span.ts'
import { dialects } from '../dialects/index.ts'
import { makeLoad, makeRun, requestType } from './load.ts'
import { formatTable } from './table.ts'

const PASSES = 5
/** A pass of scanning is over in milliseconds. */
const SCANS = 50

export function readAgain(sizes: readonly number[]): void {
  const rows = sizes.flatMap((size) => {
    const bodies = makeRun(size)
    const decoded = best(size, () => decode(bodies))
    const [agents, others] = [(item: Item) => item, strange].map((change) => {
      const items = decode(bodies).map(change)
      return best(size, () => readItems(items, dialects))
    })
    return [
      ['agents', size, decoded, agents!],
      ['others', size, '', others!],
    ]
  })
  console.log(formatTable(['spans of', 'spans', 'decoded per CPU-second', 'read per CPU-second'], rows))
  console.log(`\n${formatTable(['spans a request', 'scanned per CPU-second', 'by protobufjs', 'ratio'], [64, 512].map(scanned))}`)
}

/** Until it can be stored, a request is scanned; generic decoders make objects of all it holds. */
function scanned(batch: number): (string | number)[] {
  const { requests, spans } = makeLoad(batch, 8_192)
  const type = requestType()
  const own = best(spans, () => requests.forEach(({ body }) => scan('traces', body)), SCANS)
  const theirs = best(spans, () => requests.forEach(({ body }) => type.decode(body)))
  return [batch, own, theirs, (own / theirs).toFixed(1)]
}

const decode = (bodies: readonly Buffer[]): Item[] =>
  bodies.flatMap((body) => {
    const { batch } = scan('traces', body)
    return Array.from({ length: batch.count }, (_, i) => readItem(batch, i))
  })

/** The same span as of an HTTP client: as many attributes, none that a dialect knows. */
const strange = (item: Item): Item => ({
  ...(item as Span),
  name: 'GET',
  scope: { ...item.scope, name: 'http' },
  attributes: Object.fromEntries(Object.entries(item.attributes).map(([key, value]) => [`http.${key}`, value])),
  events: [],
})

/** Spans per second of CPU, in the best of some passes. */
function best(spans: number, work: () => unknown, passes = PASSES): number {
  let shortest = Infinity
  for (let pass = 0; pass < passes; pass++) {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    shortest = Math.min(shortest, user + system)
  }
  return Math.round((spans / shortest) * 1e6)
}
