// One huge rollout: from its spans' bytes, as the rollouts connector holds them, to credited transitions. Storing is not in it.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { registry } from '../cli/registry.ts'
import { assemble } from '../data/assemble.ts'
import type { Rollout } from '../data/rollout.ts'
import { itemReader, type Stranger } from '../data/item_reader.ts'
import { scan } from '../data/scan.ts'
import type { Item } from '../data/span.ts'
import { payload, rawItem, type RawItem } from '../data/span_batch.ts'
import { dialects } from '../dialects/index.ts'
import { loadConfig, type Plan } from '../pipeline/config.ts'
import { createTelemetry } from '../pipeline/telemetry.ts'
import { makeRun } from './load.ts'
import { formatTable } from './table.ts'

const CLOSING = { key: 'one\u0000', closed_by: 'root', revision: 1, covered_until: 0 } as const

export async function assembleOne(sizes: readonly number[]): Promise<void> {
  const { plan } = await loadConfig(['config/pipeline.yaml', 'yaml:service::telemetry::metrics::level: none'], {
    registry,
    env: {},
    cwd: process.cwd(),
  })
  const rows: number[][] = []
  for (const size of sizes) rows.push(await measure(size, plan!))
  console.log(formatTable(['spans', 'read ms', 'process ms', 'all ms', 'CPU ms', 'transitions', 'MB'], rows))
}

async function measure(size: number, plan: Plan): Promise<number[]> {
  const raws = makeRun(size).flatMap(itemsIn)
  const credit = await processors(plan)
  collectGarbage()
  const before = inMemory()
  const cpu = process.cpuUsage()
  const start = performance.now()
  const assembled = assemble(itemsOf(raws), dialects, CLOSING)
  const joined = performance.now()
  const { spans, transitions } = await credit(assembled)
  const end = performance.now()
  const { user, system } = process.cpuUsage(cpu)
  // Also so that the bytes of the spans are there until the end, as they were at the beginning.
  if (spans !== raws.length) throw new Error(`${raws.length} spans were read as ${spans}`)
  // With the garbage that is left at the end; the bytes of the spans are not in it.
  const megabytes = (inMemory() - before) / 2 ** 20
  return [spans, joined - start, end - joined, end - start, (user + system) / 1e3, transitions.length, megabytes].map(Math.round)
}

/** Bytes of V8's heap, and of what is held outside of it. */
function inMemory(): number {
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/** Twice, since the memory of buffers is given back after a collection, and at the latest by the next. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  collect()
}

/** Each in memory of its own, as the connector takes a rollout out of the requests that it came in. */
function itemsIn(body: Buffer): RawItem[] {
  const { batch } = scan('traces', body)
  return Array.from({ length: batch.count }, (_, i) => ({ ...rawItem(batch, i), payload: Buffer.from(payload(batch, i)) }))
}

/** One by one, as the connector reads them. */
function* itemsOf(raws: readonly RawItem[]): Generator<Item | Stranger> {
  const read = itemReader(dialects)
  for (const raw of raws) yield read(raw)
}

/** The processors of the rollouts pipeline, one after the other. */
async function processors(plan: Plan): Promise<(rollout: Rollout) => Promise<Rollout>> {
  const telemetry = await createTelemetry(plan.service.telemetry)
  const pipeline = plan.service.pipelines.find(({ signal }) => signal === 'rollouts')!
  const instances = pipeline.processors.map((id) => {
    const { component, config } = plan.processors.get(id)!
    return component.create(config, telemetry.contextFor('processor', id, pipeline))
  })
  return async (rollout) => {
    for (const instance of instances) rollout = (await instance.process(rollout)) as Rollout
    return rollout
  }
}
