// A real agent, traced as usual, becomes training data: two rollouts of one task, of which one finds the answer.
//
//   npm start          in one terminal
//   npm run example    in another

import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { trace } from '@opentelemetry/api'
import { logs } from '@opentelemetry/api-logs'

import { answer } from './agent.ts'
import { startModelServer } from './model_server.ts'
import { flushSpans, OpenAI, stopTracing } from './tracing.ts'

const QUESTION = 'How much is order 1042 in euros?'
const SEEDS = [1, 2]
const PATIENCE_MS = 10_000
const CONFIG = process.argv[2] ?? 'config/pipeline.yaml'
const LEYDEN = fileURLToPath(new URL('../../cli/leyden.js', import.meta.url))

const tracer = trace.getTracer('environment')
const logger = logs.getLogger('environment')

await needLeyden(new URL(process.env.OTEL_EXPORTER_OTLP_ENDPOINT ?? 'http://localhost:4317'))

const model = await startModelServer()
const client = new OpenAI({ baseURL: model.url, apiKey: 'none' })
const group = crypto.randomUUID()
const rollouts: string[] = []
for (const seed of SEEDS) rollouts.push(await rollout(seed))
await stopTracing()
model.close()

await credited()
show(
  'sql',
  '--format=PrettyCompactMonoBlock',
  `SELECT rollout_id, step, finish_reason, reward_outcome, round(return, 3) AS return, round(advantage, 3) AS advantage
   FROM transitions WHERE group_id = '${group}' ORDER BY rollout_id, step`,
)
for (const id of rollouts) show('explain', id)

/** One try of the task. These attributes are all that Leyden asks of an agent, and each of them may be left out. */
async function rollout(seed: number): Promise<string> {
  const id = crypto.randomUUID()
  const attributes = {
    'leyden.rollout.id': id,
    'leyden.task.id': 'order-1042-in-euros',
    'leyden.group.id': group,
    'leyden.group.size': SEEDS.length,
  }
  await tracer.startActiveSpan('rollout', { attributes }, async (span) => {
    const text = await answer(client, QUESTION, seed)
    reward('correct', text.includes('41.40') ? 1 : 0)
    console.log(`rollout ${id}: ${text}`)
    span.end()
    await flushSpans()
    // Everything is delivered: with this event Leyden need not wait to see whether more comes.
    logger.emit({ eventName: 'leyden.rollout.end', attributes: { ...attributes, 'leyden.rollout.status': 'succeeded' } })
  })
  return id
}

function reward(name: string, value: number): void {
  const attributes = { 'agentlightning.reward.0.name': name, 'agentlightning.reward.0.value': value }
  tracer.startSpan('agentlightning.annotation', { attributes }).end()
}

async function needLeyden({ hostname, port }: URL): Promise<void> {
  const socket = connect(Number(port), hostname)
  try {
    await once(socket, 'connect')
    socket.destroy()
  } catch {
    console.error(`nothing listens on ${hostname}:${port}: start Leyden first (npm start)`)
    process.exit(1)
  }
}

/** Advantages come when the last rollout of the group is committed; until then there is nothing to compare. */
async function credited(): Promise<void> {
  const question = `SELECT 1 FROM transitions WHERE group_id = '${group}' AND advantage IS NOT NULL LIMIT 1`
  for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline; await sleep(200)) {
    if (leyden('sql', '--format=TabSeparated', question).stdout.toString()) return
  }
  console.error('no transitions yet: what does the log of Leyden say?')
}

function show(command: string, ...args: string[]): void {
  console.log(`\n> leyden ${command} ${args.join(' ')}`)
  process.stdout.write(leyden(command, ...args).stdout)
}

function leyden(command: string, ...args: string[]) {
  return spawnSync(process.execPath, [LEYDEN, command, '--config', CONFIG, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
}
