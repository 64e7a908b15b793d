// npm run demo: a policy that guesses learns to calculate, while it serves. Three processes, joined by ClickHouse and files: `leyden run`
// (endpoint, receivers, embedded ClickHouse), `leyden train`, and `leyden rollouts run` with the agent's workers. The exit code is 0 only where
// success rose by RISE.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { removeDatabase, rowsOf } from '../clickhouse.ts'
import { seeded } from '../random.ts'
import { barOf, sparkline, successOf, type VersionProgress } from './chart.ts'
import { problem } from './problems.ts'
import { freePorts, keepRunning, reachable, type Process } from './processes.ts'

const RISE = 0.3
const STEPS = Number(process.env.DEMO_STEPS ?? 24)
const TASKS = 400
/** The base is compared with the last versions together. */
const LAST = 3
const START_MS = 60_000
const LOOK_MS = 2_000

const LEYDEN = fileURLToPath(new URL('../../cli/leyden.js', import.meta.url))
const WORKER = fileURLToPath(new URL('worker.js', import.meta.url))
const CONFIG = ['--config', 'examples/demo/pipeline.yaml']

const PROGRESS = `SELECT policy_version AS version, rollouts, average AS success FROM policy_progress
  WHERE policy = 'calculator' AND mode = 'train' AND policy_version IS NOT NULL ORDER BY version`
const PROOF = `SELECT policy_version, count() AS rollouts, round(avg(reward_outcome), 2) AS success
  FROM transitions WHERE policy = 'calculator' AND step = 0 GROUP BY policy_version ORDER BY policy_version`

const folder = mkdtempSync(join(tmpdir(), 'leyden-demo-'))
const data = join(folder, 'data')
const [otlp, scores, endpoint, health] = (await freePorts(4)) as [number, number, number, number]
const env = {
  ...process.env,
  CLICKHOUSE_URL: `embedded:${data}`,
  DEMO_OTLP_PORT: String(otlp),
  DEMO_SCORES_PORT: String(scores),
  DEMO_ENDPOINT_PORT: String(endpoint),
  DEMO_HEALTH_PORT: String(health),
  DEMO_POLICIES: join(folder, 'policies'),
  OTEL_EXPORTER_OTLP_ENDPOINT: `http://localhost:${otlp}`,
  LEYDEN_SCORES: `http://localhost:${scores}`,
}
const processes: Process[] = []

/** Rejects when this process is told to end: the others end before it does. */
const told = new Promise<never>((_resolve, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => reject(new Error(`\nended by ${signal}`)))
})

try {
  process.exitCode = (await Promise.race([demo(), told])) ? 0 : 1
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
} finally {
  for (const running of processes.toReversed()) await running.stop()
  if (process.exitCode === 0) {
    await removeDatabase(data)
    rmSync(folder, { recursive: true })
  } else console.log(`logs and data are in ${folder}`)
  // Where it was told to end, the demo itself may still wait for what has ended.
  process.exit()
}

/** @returns whether success rose */
async function demo(): Promise<boolean> {
  const random = seeded(1)
  const tasks = Array.from({ length: TASKS }, () => problem(random)).map(({ question, answer }) => ({ question, answer }))
  writeFileSync(join(folder, 'tasks.jsonl'), tasks.map((task) => JSON.stringify(task)).join('\n'))
  console.log(`${tasks[0]!.question}  A policy of 50,000 parameters answers, and knows no better than to guess.\n`)

  start('pipeline', [LEYDEN, 'run', ...CONFIG])
  start('trainer', [LEYDEN, 'train', ...CONFIG])
  await reachable(`http://localhost:${health}/`, START_MS)
  const runner = start('rollouts', [
    ...[LEYDEN, 'rollouts', 'run', ...CONFIG, '--tasks', join(folder, 'tasks.jsonl'), '--policy', 'calculator', '--steps', String(STEPS)],
    ...['--group-size', '8', '--tasks-per-step', '8', '--ahead', '1', '--workers', '2', '--concurrency', '24', '--max-attempts', '5'],
    ...['--endpoint', `http://localhost:${endpoint}`, '--otlp', `http://localhost:${otlp}`, '--', process.execPath, WORKER],
  ])
  const shown = show(runner.done)
  await Promise.race([runner.done, told])
  await shown

  console.log(`\n> leyden sql "${PROOF}"`)
  spawnSync(process.execPath, [LEYDEN, 'sql', '--format', 'PrettyCompactMonoBlock', PROOF], {
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const versions = await progress()
  const [before, after] = [successOf(versions.slice(0, 1)), successOf(versions.slice(-LAST))]
  console.log(`\n${sparkline(versions.map(({ success }) => success))}  success rose from ${before.toFixed(2)} to ${after.toFixed(2)}`)
  return after - before >= RISE
}

function start(name: string, args: readonly string[]): Process {
  const started = keepRunning(name, args, env, join(folder, `${name}.log`))
  processes.push(started)
  return started
}

/** Draws a bar for each version when the next one answers; on a terminal also the one that answers now, as it grows. */
async function show(done: Promise<void>): Promise<void> {
  const ended = done.then(
    () => true,
    () => true,
  )
  const { isTTY } = process.stdout
  for (let [drawn, last] = [0, false]; !last;) {
    last = await Promise.race([ended, sleep(LOOK_MS, false)])
    const versions = await progress()
    if (isTTY) process.stdout.write('\r\u001b[K')
    for (; drawn < versions.length - (last ? 0 : 1); drawn++) console.log(barOf(versions[drawn]!))
    if (isTTY && drawn < versions.length) process.stdout.write(barOf(versions[drawn]!))
  }
}

/** None while ClickHouse is away or being started again. */
function progress(): Promise<VersionProgress[]> {
  return rowsOf<VersionProgress>(data, PROGRESS).catch(() => [])
}
