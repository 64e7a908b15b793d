// Scores that come late: many at once and one at a time, on a store of many credited rollouts, from the answer of POST /v1/scores to
// the advantages that follow from them; and what a training batch takes to read before and after. Beside it, in the same ClickHouse,
// what one would do without Leyden (bench/credit_rivals.ts).

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { openStorage, type OpenStorage } from '../storage/open.ts'
import { startClickHouse } from './clickhouse.ts'
import { CALLS, GROUP, groupId, makeStore, rolloutId } from './credit_store.ts'
import { otelTraces, replacing } from './credit_rivals.ts'
import { launchLeyden } from './leyden.ts'
import { cpuSeconds, end, freePorts } from './processes.ts'
import { formatTable } from './table.ts'

export interface CreditOptions {
  readonly rollouts: number
  /** Rollouts scored late, in whole groups. */
  readonly late: number
  /** How many come one by one after them. */
  readonly single: number
}

const BATCH_GROUPS = 2_500
const READS = 7
/** Asking more often would cost ClickHouse more than what it is asked about. */
const POLL_MS = 25

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
    const url = `http://localhost:${scores}/v1/scores`
    const cpu = async () => [await cpuSeconds(leyden.pid!), await cpuSeconds(clickhouse.pid)] as const
    const started = await cpu()
    const all = await scoreAll(storage, url, groups, 2)
    const first = await cpu()
    const again = await scoreAll(storage, url, groups, 3)
    const scored = await cpu()
    const single = await scoreEach(storage, url, groups.slice(0, alone), 4)
    const ended = await cpu()
    const after = await readMs(storage, readBatch(batch))
    const naive = await replacing(storage, groups, batch)
    const otel = await otelTraces(storage, groups, batch)
    const ms = (n: number) => `${Math.round(n)} ms`
    console.log(`${rollouts} rollouts, ${rollouts * CALLS} transitions; ${late} late scores, in whole groups of ${GROUP}\n`)
    console.log(
      formatTable(
        ['', 'Leyden', 'ReplacingMergeTree, FINAL', 'otel_traces'],
        [
          ['late scores: accepted to visible', ms(all.visible), ms(naive.write), ms(otel.write)],
          ['late scores: sent to accepted', ms(all.accepted), '', ''],
          ['late scores: CPU of Leyden and of ClickHouse', used(started, first), '', ''],
          ['said otherwise: accepted to visible', ms(again.visible), '', ''],
          ['said otherwise: CPU of Leyden and of ClickHouse', used(first, scored), '', ''],
          ['one late score: accepted to visible, p50', ms(percentile(single.visible, 0.5)), '', ''],
          ['one late score: accepted to visible, p99', ms(percentile(single.visible, 0.99)), '', ''],
          ['one late score: sent to visible, p99', ms(percentile(single.all, 0.99)), '', ''],
          ['one late score: CPU of both', used(scored, ended, alone), '', ''],
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

/** Milliseconds for each of `scores`. */
const used = (before: readonly number[], after: readonly number[], scores = 1): string =>
  after.map((seconds, i) => `${Math.round(((seconds - before[i]!) * 1_000) / scores)} ms`).join(', ')

/** `count` groups, evenly over all there are. */
const spread = (all: number, count: number): string[] => Array.from({ length: count }, (_, i) => groupId(Math.floor((i * all) / count)))

const numberOf = (group: string): number => Number(group.slice(groupId(0).length - 1))
const membersOf = (group: string): string[] => Array.from({ length: GROUP }, (_, i) => rolloutId(numberOf(group) * GROUP + i))

/** @param version of the credit that follows; the first time the process is as it started, afterwards its code is compiled */
async function scoreAll(
  storage: OpenStorage,
  url: string,
  groups: readonly string[],
  version: number,
): Promise<{ accepted: number; visible: number }> {
  const scores = groups.flatMap(membersOf).map((id, i) => ({ rolloutId: id, name: 'correct', value: (i + version) % 2, source: 'human' }))
  const start = performance.now()
  await post(url, scores)
  const accepted = performance.now()
  while ((await count(storage, `SELECT count() FROM credits WHERE credit_version = ${version}`)) < groups.length) await sleep(POLL_MS)
  const visible = performance.now()
  const changed = await count(storage, `SELECT count() FROM transitions WHERE credit_version = ${version}`)
  if (changed !== scores.length * CALLS) throw new Error(`${changed} transitions were credited again, not ${scores.length * CALLS}`)
  return { accepted: accepted - start, visible: visible - accepted }
}

async function scoreEach(
  storage: OpenStorage,
  url: string,
  groups: readonly string[],
  version: number,
): Promise<{ visible: number[]; all: number[] }> {
  const times = { visible: [] as number[], all: [] as number[] }
  for (const group of groups) {
    const start = performance.now()
    await post(url, { rolloutId: membersOf(group)[0], name: 'correct', value: 0.5, source: 'human' })
    const accepted = performance.now()
    const credited = `SELECT count() FROM credits WHERE group_id = '${group}' AND credit_version = ${version}`
    while ((await count(storage, credited)) === 0) await sleep(POLL_MS)
    times.visible.push(performance.now() - accepted)
    times.all.push(performance.now() - start)
  }
  return times
}

async function post(url: string, body: object): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
  await answer.body?.cancel()
}

async function count(storage: OpenStorage, query: string): Promise<number> {
  const [row] = await (await storage.client.query({ query, format: 'JSONCompactEachRow' })).json<[number | string]>()
  return Number(row![0])
}

const readBatch = (groups: readonly string[]) => `
SELECT rollout_id, step, advantage, weight, response_token_ids, response_logprobs FROM transitions
WHERE group_id IN (${groups.map((group) => `'${group}'`).join(',')})`

/** Median; in the format that the trainer and most clients ask for. The answer's bytes are taken and not looked at. */
export async function readMs({ client }: Pick<OpenStorage, 'client'>, query: string): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < READS; i++) {
    const start = performance.now()
    const { stream } = await client.exec({ query: `${query} FORMAT Native`, clickhouse_settings: { max_query_size: '10000000' } })
    for await (const _ of stream);
    times.push(performance.now() - start)
  }
  return percentile(times, 0.5)
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
}
