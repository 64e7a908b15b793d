// Leyden's own decoder behind the endpoint: tokens a second for many agents, and what a new version each second does to them.

import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { initCheckpoint } from '../policy/checkpoint.ts'
import { openStorage } from '../storage/open.ts'
import { policiesOf, type Policies } from '../storage/policies.ts'
import type { ClickHouse } from './clickhouse.ts'
import { formatTable } from './table.ts'

const AGENTS = 20
const TOKENS = 64
const SWAP_EVERY_MS = 1_000

/** The tokenizer of all is that of the tests, of 420 tokens. */
export const POLICIES = {
  own_50k: { hidden_size: 48, intermediate_size: 144, num_hidden_layers: 1, num_attention_heads: 4, max_position_embeddings: 512 },
  own_4m: { hidden_size: 256, intermediate_size: 704, num_hidden_layers: 5, num_attention_heads: 8, max_position_embeddings: 512 },
} as const
type Policy = keyof typeof POLICIES

/** Random weights. No token ends an answer, so that all are of one length. */
export function makePolicy(folder: string, policy: Policy, seed: number): string {
  mkdirSync(folder, { recursive: true })
  for (const file of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])
    cpSync(join('test/fixtures/policy/tokenizer', file), join(folder, file))
  initCheckpoint(folder, { vocab_size: 420, ...POLICIES[policy] }, seed)
  return folder
}

/** Every agent asks again as soon as it has its answer; in the second half versions are published. */
export async function ownDecoder(port: number, { folder, store }: ClickHouse, seconds: number): Promise<void> {
  const storage = await openStorage({ url: `embedded:${store}` })
  const policies = policiesOf(storage.client)
  const rows: (string | number)[][] = []
  for (const policy of Object.keys(POLICIES) as Policy[]) {
    for (const swapping of [false, true]) {
      const figures = await agents(port, policy, seconds, swapping ? publishing(policies, policy, folder) : undefined)
      rows.push([policy, swapping ? 'a new one each second' : 'one', ...figures])
    }
  }
  await storage.close()
  console.log(`\nown decoder: ${AGENTS} agents, ${TOKENS} tokens an answer, milliseconds\n`)
  const headings = ['policy', 'versions', 'tokens/s', 'answers', 'failed', 'longest pause in an answer', 'published to first token']
  console.log(formatTable(headings, rows))
}

/** Publishes the next version, whose files were made before, since that would take the decoder's time. */
function publishing(policies: Policies, policy: Policy, folder: string) {
  const base = join(folder, policy)
  const made = [1, 2].map((seed) => makePolicy(join(folder, `${policy}-${seed}`), policy, seed))
  let version = 0
  return async function publish(): Promise<number> {
    version++
    const path = made[version % made.length]!
    await policies.publish({ policy, version, base, path, parent: version - 1, status: 'live', trained_on: {}, metrics: {} })
    return version
  }
}

async function agents(port: number, model: Policy, seconds: number, publish?: () => Promise<number>): Promise<(string | number)[]> {
  const until = performance.now() + 1_000 * seconds
  const body = JSON.stringify({ model, stream: true, max_tokens: TOKENS, messages: [{ role: 'user', content: 'Go on.' }] })
  const [published, seen] = [new Map<string, number>(), new Map<string, number>()]
  let [tokens, answers, failed, pause] = [0, 0, 0, 0]

  async function agent(): Promise<void> {
    while (performance.now() < until) {
      let last = performance.now()
      const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: 'POST', body })
      let text = ''
      for await (const part of reply.body!.pipeThrough(new TextDecoderStream())) {
        const now = performance.now()
        pause = Math.max(pause, now - last)
        last = now
        if (text === '') firstToken(part, now)
        text += part
      }
      if (!text.includes('[DONE]')) failed++
      answers++
      tokens += text.split('"delta":{"content"').length - 1
    }
  }

  function firstToken(part: string, now: number): void {
    const version = /"system_fingerprint":"[^"@]*@([0-9]+)"/.exec(part)?.[1] ?? ''
    if (!seen.has(version)) seen.set(version, now)
  }

  async function swap(): Promise<void> {
    while (publish && performance.now() < until - SWAP_EVERY_MS) {
      const now = performance.now()
      published.set(String(await publish()), now)
      await sleep(SWAP_EVERY_MS)
    }
  }

  const began = performance.now()
  await Promise.all([swap(), ...Array.from({ length: AGENTS }, agent)])
  const took = (performance.now() - began) / 1_000
  const waits = [...published].map(([version, at]) => (seen.get(version) ?? Infinity) - at)
  return [Math.round(tokens / took), answers, failed, Math.round(pause), waits.length === 0 ? '' : Math.round(Math.max(...waits))]
}
