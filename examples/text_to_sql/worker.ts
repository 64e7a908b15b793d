// The agent as a worker of `leyden rollouts run`: an order a line, a result a line. Only this file names Leyden's addresses, and they come with
// the order and the environment.

import { createInterface } from 'node:readline'

import { ChatOpenAI } from '@langchain/openai'
import { context, propagation } from '@opentelemetry/api'

import { flushSpans, stopTracing } from './tracing.ts'
import { answer } from './agent.ts'
import { sameAnswer } from './sqlite.ts'
import type { Question } from './tasks.ts'

interface Order {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly input: Question
  readonly base_url: string
  readonly model: string
  readonly sampling_parameters: { readonly temperature?: number }
  readonly traceparent: string
}

const MOST_TOKENS = 22

const running = new Set<Promise<void>>()
for await (const line of createInterface({ input: process.stdin })) {
  const rollout = run(JSON.parse(line) as Order).finally(() => running.delete(rollout))
  running.add(rollout)
}
await Promise.all(running)
await stopTracing()

async function run({ rollout_id, attempt_id, input, base_url, model, sampling_parameters, traceparent }: Order): Promise<void> {
  const chat = new ChatOpenAI({
    ...{ model, apiKey: 'none', maxTokens: MOST_TOKENS, temperature: 1, ...sampling_parameters },
    configuration: { baseURL: base_url },
  })
  const parent = propagation.extract(context.active(), { traceparent })
  try {
    const sql = await context.with(parent, () => answer(chat, input))
    await flushSpans()
    const reward = sameAnswer(input.database, sql, input.sql) ? 1 : 0
    console.log(JSON.stringify({ rollout_id, attempt_id, status: 'succeeded', reward }))
  } catch (error) {
    console.error(`rollout ${rollout_id}: ${(error as Error).message}`)
    console.log(JSON.stringify({ rollout_id, attempt_id, status: 'failed' }))
  }
}
