// Scores that come late: many at once and one at a time, on a store of many credited rollouts, from the answer of POST /v1/scores to
// the advantages that follow from them; and what a training batch takes to read before and after. Beside it, in the same ClickHouse,
// what one would do without Leyden (bench/credit_rivals.ts).
//
// A Leyden that holds so many credited rollouts has credited them, and its code is compiled: so as many others are scored first, and what the
// first thing that a process does takes has a row of its own.

import { watch } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { openStorage, type OpenStorage } from '../storage/open.ts'
import { startClickHouse } from './clickhouse.ts'
import { CALLS, GROUP, groupId, makeStore, rolloutId } from './credit_store.ts'
import { otelTraces, replacing } from './credit_rivals.ts'
import { launchLeyden } from './leyden.ts'
import { cpuSeconds, end, freePorts } from './processes.ts'
import { quantile } from './quantile.ts'
import { formatTable } from './table.ts'

export interface CreditOptions {
  readonly rollouts: number
  /** Rollouts scored late, in whole groups; as many others are first. Half of all at most. */
  readonly late: number
  /** How many come one by one after them. */
  readonly single: number
}

const BATCH_GROUPS = 2_500
const READS = 7
const LONG = { max_query_size: '10000000' } as const
/** Between two questions, once ClickHouse has written something: asking all the time would take the processor from what is asked about. */
const POLL_MS = 2
/** Where in each stretch of groups those stand that are scored first: none of them is in the batch. */
const FIRST = 0.25

export async function creditLate({ rollouts, late, single: alone }: CreditOptions): Promise<void> {
  const clickhouse = await startClickHouse()
  await makeStore(clickhouse.store, rollouts)
  const [scores, health] = (await freePorts(2)) as [number, number]
  const config = join(clickhouse.folder, 'pipeline.yaml')
  await writeFile(config, pipeline(clickhouse.store, scores, health))
  const leyden = await launchLeyden(config, health)
  const storage = await openStorage({ url: `embedded:${clickhouse.store}` })
  try {
    const groups = spread(rollouts / GROUP, late / GROUP)
    const batch = spread(rollouts / GROUP, Math.min(BATCH_GROUPS, rollouts / GROUP))
    const before = await readMs(storage, readBatch(batch))
    const measured: Measured = {
      ...{ storage, url: `http://localhost:${scores}/v1/scores`, credits: await folderOf(storage, 'credits') },
      cpu: async () => [await cpuSeconds(leyden.pid!), await cpuSeconds(clickhouse.pid)],
    }
    const cold = await scoreAll(measured, spread(rollouts / GROUP, late / GROUP, FIRST), 2)
    const all = await scoreAll(measured, groups, 2)
    const again = await scoreAll(measured, groups, 3)
    const single = await scoreEach(measured, groups.slice(0, alone))
    const after = await readMs(storage, readBatch(batch))
    const naive = await replacing(storage, groups, batch)
    const otel = await otelTraces(storage, groups, batch)
    const ms = (n: number) => `${Math.round(n)} ms`
    console.log(`${rollouts} rollouts, ${rollouts * CALLS} transitions; ${late} late scores, in whole groups of ${GROUP}\n`)
    console.log(
      formatTable(
        ['', 'Leyden', 'ReplacingMergeTree, FINAL', 'otel_traces'],
        [
          ['late scores, the first thing a process does: accepted to visible', ms(cold.visible), '', ''],
          ['late scores, the first thing a process does: CPU of Leyden and of ClickHouse', cold.used, '', ''],
          ['late scores: accepted to visible', ms(all.visible), ms(naive.write), ms(otel.write)],
          ['late scores: sent to accepted', ms(all.accepted), '', ''],
          ['late scores: CPU of Leyden and of ClickHouse', all.used, '', ''],
          ['said otherwise: accepted to visible', ms(again.visible), '', ''],
          ['said otherwise: CPU of Leyden and of ClickHouse', again.used, '', ''],
          [`one late score of ${alone}: accepted to visible, p50`, ms(quantile(single.visible, 0.5)), '', ''],
          [`one late score of ${alone}: accepted to visible, p99`, ms(quantile(single.visible, 0.99)), '', ''],
          [`one late score of ${alone}: sent to visible, p50`, ms(quantile(single.all, 0.5)), '', ''],
          [`one late score of ${alone}: sent to visible, p99`, ms(quantile(single.all, 0.99)), '', ''],
          ['one late score: CPU of both', single.used, '', ''],
          [`${batch.length * GROUP * CALLS} rows of a batch, before`, ms(before), '', ''],
          [`${batch.length * GROUP * CALLS} rows of a batch, after`, ms(after), ms(naive.read), ms(otel.read)],
        ],
      ),
    )
  } finally {
    await storage.close()
    await end(leyden, 'SIGKILL')
    await clickhouse.stop()
  }
}

const pipeline = (store: string, scores: number, health: number) => `
receivers: {scores: {endpoint: "localhost:${scores}"}}
processors: {policy_calls: , air: , credit_assignment: }
connectors: {rollouts: }
exporters: {clickhouse: }
extensions: {clickhouse_storage: {url: "embedded:${store}"}, health_check: {endpoint: "localhost:${health}"}}
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  extensions: [clickhouse_storage, health_check]
  pipelines:
    logs: {receivers: [scores], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [clickhouse]}
`

interface Measured {
  readonly storage: OpenStorage
  readonly url: string
  /** Where ClickHouse keeps what says that a group is credited. */
  readonly credits: string
  /** Seconds that Leyden and ClickHouse have used. */
  cpu(): Promise<readonly number[]>
}

/** Milliseconds for each of `scores`. */
const used = (before: readonly number[], after: readonly number[], scores = 1): string =>
  after.map((seconds, i) => `${Math.round(((seconds - before[i]!) * 1_000) / scores)} ms`).join(', ')

/** `count` groups, evenly over all there are. @param at from 0, in each stretch */
const spread = (all: number, count: number, at = 0): string[] =>
  Array.from({ length: count }, (_, i) => groupId(Math.floor(((i + at) * all) / count)))

const numberOf = (group: string): number => Number(group.slice(groupId(0).length - 1))
const membersOf = (group: string): string[] => Array.from({ length: GROUP }, (_, i) => rolloutId(numberOf(group) * GROUP + i))

/** @param version of the credit that follows */
async function scoreAll(
  { storage, url, credits, cpu }: Measured,
  groups: readonly string[],
  version: number,
): Promise<{ accepted: number; visible: number; used: string }> {
  const scores = groups.flatMap(membersOf).map((id, i) => ({ rolloutId: id, name: 'correct', value: (i + version) % 2, source: 'human' }))
  const credited = await awaitCredits(storage, credits, groups.length)
  const before = await cpu()
  const start = performance.now()
  await post(url, scores)
  const accepted = performance.now()
  await credited()
  const visible = performance.now()
  const after = await cpu()
  const changed = await count(
    storage,
    `SELECT count() FROM transitions WHERE group_id IN ${listOf(groups)} AND credit_version = ${version}`,
  )
  if (changed !== scores.length * CALLS) throw new Error(`${changed} transitions were credited again, not ${scores.length * CALLS}`)
  return { accepted: accepted - start, visible: visible - accepted, used: used(before, after) }
}

async function scoreEach(
  { storage, url, credits, cpu }: Measured,
  groups: readonly string[],
): Promise<{ visible: number[]; all: number[]; used: string }> {
  const times = { visible: [] as number[], all: [] as number[] }
  const before = await cpu()
  for (const group of groups) {
    const credited = await awaitCredits(storage, credits, 1)
    const start = performance.now()
    await post(url, { rolloutId: membersOf(group)[0], name: 'correct', value: 0.5, source: 'human' })
    const accepted = performance.now()
    await credited()
    times.visible.push(performance.now() - accepted)
    times.all.push(performance.now() - start)
  }
  return { ...times, used: used(before, await cpu(), groups.length) }
}

/** @returns what resolves once a query finds so many credits more; from now on */
async function awaitCredits(storage: OpenStorage, folder: string, more: number): Promise<() => Promise<void>> {
  const all = 'SELECT count() FROM credits'
  const wanted = (await count(storage, all)) + more
  const written = new Promise<void>((resolve) => {
    // A part has another name until it is complete.
    const watcher = watch(folder, (_, name) => {
      if (name?.startsWith('tmp')) return
      watcher.close()
      resolve()
    })
  })
  return async () => {
    await written
    while ((await count(storage, all)) < wanted) await sleep(POLL_MS)
  }
}

async function folderOf({ client }: OpenStorage, table: string): Promise<string> {
  const query = `SELECT data_paths[1] FROM system.tables WHERE database = currentDatabase() AND name = '${table}'`
  return (await (await client.query({ query, format: 'JSONCompactEachRow' })).json<[string]>())[0]![0]
}

async function post(url: string, body: object): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
  await answer.body?.cancel()
}

async function count(storage: OpenStorage, query: string): Promise<number> {
  const answer = await storage.client.query({ query, format: 'JSONCompactEachRow', clickhouse_settings: LONG })
  const [row] = await answer.json<[number | string]>()
  return Number(row![0])
}

const listOf = (groups: readonly string[]) => `(${groups.map((group) => `'${group}'`).join(',')})`

const readBatch = (groups: readonly string[]) => `
SELECT rollout_id, step, advantage, weight, response_token_ids, response_logprobs FROM transitions WHERE group_id IN ${listOf(groups)}`

/** Median; in the format that the trainer and most clients ask for. The answer's bytes are taken and not looked at. */
export async function readMs({ client }: Pick<OpenStorage, 'client'>, query: string): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < READS; i++) {
    const start = performance.now()
    const { stream } = await client.exec({ query: `${query} FORMAT Native`, clickhouse_settings: LONG })
    for await (const _ of stream);
    times.push(performance.now() - start)
  }
  return quantile(times, 0.5)
}
