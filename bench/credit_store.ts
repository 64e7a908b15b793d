// A store of many scored and credited rollouts, as they are after months of traffic: one run of five calls and five tools is assembled
// and processed, and stored under ids and token ids of its own each time. Raw spans are not stored with them, as if they had expired.

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

import { registry } from '../cli/registry.ts'
import { assemble } from '../data/assemble.ts'
import { fromJson } from '../data/otlp_json.ts'
import type { Rollout } from '../data/rollout.ts'
import { readItem, scan } from '../data/scan.ts'
import { dialects } from '../dialects/index.ts'
import { loadConfig } from '../pipeline/config.ts'
import { createTelemetry } from '../pipeline/telemetry.ts'
import { openStorage } from '../storage/open.ts'

export const CALLS = 5
export const GROUP = 8
const TOGETHER = 1_000
const TOKENS = 32
const VOCABULARY = 50_000

/** Scattered over the table's order, as ids that agents mint are. */
export const rolloutId = (n: number): string => createHash('sha1').update(String(n)).digest('hex').slice(0, 32)
export const groupId = (n: number): string => `group-${n}`

/** `rollouts` of them in groups of 8, credited with version 1. */
export async function makeStore(store: string, rollouts: number): Promise<void> {
  const storage = await openStorage({ url: `embedded:${store}` })
  const template = await oneRollout()
  for (let first = 0; first < rollouts; first += TOGETHER) {
    const some = Array.from({ length: Math.min(TOGETHER, rollouts - first) }, (_, i) => variant(template, first + i))
    await storage.writeRevision(some)
    await storage.commit(some)
  }
  const credited = async () => {
    const answer = await storage.client.query({ query: 'SELECT uniqExact(group_id) AS n FROM credits', format: 'JSONEachRow' })
    return Number((await answer.json<{ n: number }>())[0]!.n)
  }
  while ((await credited()) < rollouts / GROUP) await sleep(200)
  await storage.close()
}

export async function oneRollout(): Promise<Rollout> {
  const { batch } = scan('traces', fromJson('traces', run()))
  const items = Array.from({ length: batch.count }, (_, i) => readItem(batch, i))
  let rollout = assemble(items, dialects, { key: 'one\u0000', closed_by: 'root', revision: 1, covered_until: 0 })
  const quiet = 'yaml:service::telemetry::metrics::level: none'
  const { plan } = await loadConfig(['config/pipeline.yaml', quiet], { registry, env: {}, cwd: process.cwd() })
  const telemetry = await createTelemetry(plan!.service.telemetry)
  const pipeline = plan!.service.pipelines.find(({ signal }) => signal === 'rollouts')!
  for (const id of pipeline.processors) {
    const { component, config } = plan!.processors.get(id)!
    const { process } = component.create(config, telemetry.contextFor('processor', id, pipeline))
    rollout = (await process(rollout)) as Rollout
  }
  return rollout
}

/** Every third rollout of a group fails, so that none is without signal. */
function variant(template: Rollout, n: number): Rollout {
  const outcome = n % 3 === 0 ? 0 : 1
  const tokens = (seed: number) => Array.from({ length: TOKENS }, (_, i) => Math.imul(seed * TOKENS + i, 0x9e3779b1) >>> 0)
  return {
    ...template,
    rollout_id: rolloutId(n),
    trace_ids: [rolloutId(n)],
    group_id: groupId(Math.floor(n / GROUP)),
    group_size: GROUP,
    covered_until: Date.now(),
    outcome,
    transitions: template.transitions.map((t, step) => {
      const random = tokens(n * CALLS + step)
      const response = random.map((r) => r % VOCABULARY)
      const logprobs = random.map((r) => -r / 2 ** 32)
      const call = { ...t.call, tokens: { source: 'engine' as const, prompt: [], response, logprobs } }
      return { ...t, reward_outcome: outcome, return: outcome, call }
    }),
  }
}

const START = 1_764_400_000_000n
const hex = (n: number, digits: number) => n.toString(16).padStart(digits, '0')

/** An OTLP/JSON request: calls and tools in turn below a root, then a reward of 1. */
function run(): object {
  const span = (n: number, name: string, attributes: Record<string, string | number>, ms = 5) => ({
    ...{ traceId: hex(1, 32), spanId: hex(n + 1, 16), ...(n > 0 ? { parentSpanId: hex(1, 16) } : {}), name, kind: 1, status: {} },
    startTimeUnixNano: String((START + BigInt(n) * 10n) * 1_000_000n),
    endTimeUnixNano: String((START + BigInt(n) * 10n + BigInt(ms)) * 1_000_000n),
    attributes: Object.entries(attributes).map(([key, value]) => ({
      key,
      value: typeof value === 'string' ? { stringValue: value } : { doubleValue: value },
    })),
  })
  const messages = (role: string, content: string) => JSON.stringify([{ role, parts: [{ type: 'text', content }] }])
  const turns = Array.from({ length: CALLS }, (_, i) => [
    span(1 + 2 * i, 'chat policy', {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'policy',
      'gen_ai.input.messages': messages('user', `question ${i}`),
      'gen_ai.output.messages': messages('assistant', `answer ${i}`),
    }),
    span(2 + 2 * i, 'execute_tool search', {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'search',
      'gen_ai.tool.call.arguments': JSON.stringify({ query: i }),
      'gen_ai.tool.call.result': 'found',
    }),
  ])
  const reward = { 'agentlightning.reward.0.name': 'correct', 'agentlightning.reward.0.value': 1 }
  const spans = [span(0, 'agent', {}, 1_000), ...turns.flat(), span(2 * CALLS + 1, 'agentlightning.annotation', reward)]
  return { resourceSpans: [{ resource: {}, scopeSpans: [{ scope: { name: 'bench' }, spans }] }] }
}
