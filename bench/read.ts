// Reading alone: one rollout's spans from bytes to calls, tools and rewards, and what a span costs that no dialect wants; a request's spans
// scanned, beside protobufjs, and redacted.

import { registry } from '../cli/registry.ts'
import { itemReader, type ItemReader, type Stranger } from '../data/item_reader.ts'
import { readItems } from '../data/reading.ts'
import { rewrite } from '../data/rewrite.ts'
import { scan } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import { rawItem, type RawItem, type SpanBatch } from '../data/span_batch.ts'
import { dialects } from '../dialects/index.ts'
import { loadConfig } from '../pipeline/config.ts'
import { createTelemetry } from '../pipeline/telemetry.ts'
import { makeLoad, makeRun, requestType } from './load.ts'
import { formatTable } from './table.ts'

const PASSES = 5
/** A pass of scanning is over in milliseconds. */
const SCANS = 50

export async function readAgain(sizes: readonly number[]): Promise<void> {
  const rows = sizes.flatMap((size) => {
    const batches = makeRun(size).map((body) => scan('traces', body).batch)
    return [
      ['agents', size, ...measured(batches)],
      ['others', size, ...measured(batches.map(strange))],
    ]
  })
  console.log(
    formatTable(['spans of', 'spans', 'scanned per CPU-second', 'made objects', 'read, all in all', 'µs each', 'scanning it'], rows),
  )
  const redact = await redaction()
  const ofRequests = [64, 512].map((batch) => scanned(batch, redact))
  console.log(`\n${formatTable(['spans a request', 'scanned per CPU-second', 'by protobufjs', 'ratio', 'redacted'], ofRequests)}`)
}

function measured(batches: readonly SpanBatch[]): (string | number)[] {
  const raws = batches.flatMap((batch) => Array.from({ length: batch.count }, (_, i) => rawItem(batch, i)))
  const read = itemReader(dialects)
  const scanned = best(raws.length, () => batches.forEach(({ body }) => scan('traces', body)))
  const made = best(raws.length, () => raws.forEach(read))
  const whole = best(raws.length, () => readItems(itemsOf(raws, read), dialects))
  const each = (perSecond: number) => (1e6 / perSecond).toFixed(1)
  return [scanned, made, whole, each(whole), each(scanned)]
}

/** One by one, as the connector reads them of the bytes that it holds. */
function* itemsOf(raws: readonly RawItem[], read: ItemReader): Generator<Item | Stranger> {
  for (const raw of raws) yield read(raw)
}

/** The same spans as of an HTTP client: as many attributes, none that a dialect knows. */
const strange = (batch: SpanBatch): SpanBatch =>
  rewrite(batch, (message) => {
    const { attributes = [], ...span } = message as { attributes?: { key: string }[] }
    return { ...span, name: 'GET', events: [], attributes: attributes.map((one) => ({ ...one, key: `http.${one.key}` })) }
  })

/** Until it can be stored, a request is scanned; generic decoders make objects of all it holds. Redaction looks into every text. */
function scanned(batch: number, redact: (batch: SpanBatch) => SpanBatch): (string | number)[] {
  const { requests, spans } = makeLoad(batch, 8_192)
  const type = requestType()
  const batches = requests.map(({ body }) => scan('traces', body).batch)
  const own = best(spans, () => requests.forEach(({ body }) => scan('traces', body)), SCANS)
  const theirs = best(spans, () => requests.forEach(({ body }) => type.decode(body)))
  return [batch, own, theirs, (own / theirs).toFixed(1), best(spans, () => batches.forEach(redact), 2)]
}

/** The processor as it is where nobody sets an option of it. */
async function redaction(): Promise<(batch: SpanBatch) => SpanBatch> {
  const changes = [
    'processors::redaction: {}',
    'service::pipelines::traces::processors: [redaction]',
    'service::telemetry::metrics::level: none',
  ]
  const sources = ['config/pipeline.yaml', ...changes.map((change) => `yaml:${change}`)]
  const plan = (await loadConfig(sources, { registry, env: {}, cwd: process.cwd() })).plan!
  const telemetry = await createTelemetry(plan.service.telemetry)
  const { component, config } = plan.processors.get('redaction')!
  const pipeline = plan.service.pipelines.find(({ signal }) => signal === 'traces')!
  const { process: redact } = component.create(config, telemetry.contextFor('processor', 'redaction', pipeline))
  return (batch) => redact(batch) as SpanBatch
}

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
