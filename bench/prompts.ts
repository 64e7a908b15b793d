// What prompts take on disk: runs of many turns, each of whose prompts repeats all of the run before it. Leyden writes what is new and
// puts whole prompts together again when they are asked for; beside it, in the same ClickHouse, whole prompts as they are sent.

import type { Message } from '../data/dialect.ts'
import type { Rollout, Transition } from '../data/rollout.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { tracesTables } from '../storage/otel_tables.ts'
import { startClickHouse } from './clickhouse.ts'
import { oneRollout, rolloutId } from './credit_store.ts'
import { formatTable } from './table.ts'

const TOGETHER = 50
const WORDS = 'order select price table value error total query customer return schema between region result average Zürich 東京'.split(' ')

export async function promptsOnDisk(runs: number, turns: number): Promise<void> {
  const clickhouse = await startClickHouse()
  const storage = await openStorage({ url: `embedded:${clickhouse.store}` })
  try {
    const template = await oneRollout()
    const wrong: string[] = []
    let bytes = 0
    await command(
      storage,
      'CREATE TABLE whole (rollout_id String, step UInt32, prompt String CODEC(ZSTD(1)), version UInt32) ENGINE = ReplacingMergeTree(version) ORDER BY (rollout_id, step)',
    )
    for (const statement of tracesTables({ traces_table_name: 'otel_traces', logs_table_name: '', ttl: 0 }))
      await command(storage, statement)
    for (let first = 0; first < runs; first += TOGETHER) {
      const some = Array.from({ length: Math.min(TOGETHER, runs - first) }, (_, i) => conversation(template, first + i, turns))
      await storage.writeRevision(some)
      await storage.commit(some)
      const rebuilt = await wholePrompts(storage, some)
      for (const { rollout_id, transitions } of some) {
        for (const { step, call } of transitions) {
          const sent = JSON.stringify(call.prompt)
          bytes += Buffer.byteLength(sent)
          if (rebuilt.get(`${rollout_id} ${step}`) !== sent) wrong.push(`${rollout_id} ${step}`)
        }
      }
      await copyWhole(storage, some)
    }
    const mb = (n: number) => `${(n / 1e6).toFixed(1)} MB`
    const size = async (table: string) => mb(await diskBytes(storage, table))
    console.log(`${runs} runs of ${turns} turns: ${mb(bytes)} of prompts; ${wrong.length} of ${runs * turns} rebuilt otherwise than sent\n`)
    console.log(
      formatTable(
        ['', 'on disk'],
        [
          ['Leyden, whole rows of transition_rows', await size('transition_rows')],
          ['whole prompts, ReplacingMergeTree', await size('whole')],
          ['whole prompts, otel_traces', await size('otel_traces')],
        ],
      ),
    )
  } finally {
    await storage.close()
    await clickhouse.stop()
  }
}

/** Each turn's prompt is that of the one before, its completion, and what a tool returned. */
function conversation(template: Rollout, n: number, turns: number): Rollout {
  const text = (turn: number, words: number) => Array.from({ length: words }, (_, i) => word(mixed(mixed(mixed(n) + turn) + i))).join(' ')
  const message = (role: Message['role'], content: string): Message => ({ role, parts: [{ kind: 'text', text: content }] })
  let prompt = [message('system', text(-1, 120)), message('user', text(-2, 60))]
  const transitions = Array.from({ length: turns }, (_, step): Transition => {
    const t = template.transitions[0]!
    const completion = message('assistant', text(step * 2, 50))
    const own: Transition = { ...t, step, parent_step: step - 1, call: { ...t.call, prompt, completion } }
    prompt = [...prompt, completion, message('tool', text(step * 2 + 1, 60))]
    return own
  })
  const rollout_id = rolloutId(n)
  return {
    ...template,
    rollout_id,
    trace_ids: [rollout_id],
    task_id: '',
    group_id: '',
    group_size: 0,
    covered_until: Date.now(),
    transitions,
  }
}

/** Every fourth is a number, so that text compresses about as real text does. */
const word = (random: number): string => (random % 4 === 0 ? random.toString(36) : WORDS[(random >>> 2) % WORDS.length]!)

/** The finalizer of MurmurHash3. */
function mixed(n: number): number {
  n = Math.imul(n ^ (n >>> 16), 0x85ebca6b)
  n = Math.imul(n ^ (n >>> 13), 0xc2b2ae35)
  return (n ^ (n >>> 16)) >>> 0
}

async function wholePrompts({ client }: OpenStorage, rollouts: readonly Rollout[]): Promise<Map<string, string>> {
  const query = 'SELECT rollout_id, step, prompt_messages FROM transitions_full(rollouts = {rollouts:Array(String)})'
  const query_params = { rollouts: rollouts.map(({ rollout_id }) => rollout_id) }
  const answer = await client.query({ query, query_params, format: 'JSONEachRow' })
  const rows = await answer.json<{ rollout_id: string; step: number; prompt_messages: string }>()
  return new Map(rows.map(({ rollout_id, step, prompt_messages }) => [`${rollout_id} ${step}`, prompt_messages]))
}

async function copyWhole(storage: OpenStorage, rollouts: readonly Rollout[]): Promise<void> {
  const rows = rollouts.flatMap(({ rollout_id, transitions }) =>
    transitions.map(({ step, call }) => ({
      rollout_id,
      step,
      prompt: JSON.stringify(call.prompt),
      completion: JSON.stringify(call.completion),
    })),
  )
  const { client } = storage
  await client.insert({
    table: 'whole',
    values: rows.map(({ completion: _, ...row }) => row),
    format: 'JSONEachRow',
    columns: ['rollout_id', 'step', 'prompt'],
  })
  const spans = rows.map(({ rollout_id, step, prompt, completion }) => ({
    ...{ Timestamp: 1_764_400_000 + step, TraceId: rollout_id, SpanId: String(step), SpanName: 'chat policy', ServiceName: 'agent' },
    SpanAttributes: { 'gen_ai.input.messages': prompt, 'gen_ai.output.messages': completion },
  }))
  await client.insert({ table: 'otel_traces', values: spans, format: 'JSONEachRow' })
}

async function diskBytes(storage: OpenStorage, table: string): Promise<number> {
  await command(storage, `OPTIMIZE TABLE ${table} FINAL`)
  const query = `SELECT sum(bytes_on_disk) AS n FROM system.parts WHERE active AND table = '${table}'`
  const [row] = await (await storage.client.query({ query, format: 'JSONEachRow' })).json<{ n: number | string }>()
  return Number(row!.n)
}

const command = ({ client }: OpenStorage, query: string) => client.command({ query })
