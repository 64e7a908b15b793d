// A worker of `leyden rollouts run`: reads an order a line, has the agent solve the problem, scores the answer, and writes a result a line.

import { createInterface } from 'node:readline'

import { context, propagation } from '@opentelemetry/api'
import OpenAI from 'openai'

import { solve } from './agent.ts'
import { score } from './score.ts'
import { flushSpans, stopTracing } from './tracing.ts'

interface Order {
  readonly rollout_id: string
  readonly attempt_id: string
  readonly input: { readonly question: string; readonly answer: number }
  readonly base_url: string
  readonly model: string
  readonly sampling_parameters: { readonly temperature?: number }
  readonly traceparent: string
}

const RETRIES = 8

const running = new Set<Promise<void>>()
for await (const line of createInterface({ input: process.stdin })) {
  const rollout = run(JSON.parse(line) as Order).finally(() => running.delete(rollout))
  running.add(rollout)
}
await Promise.all(running)
await stopTracing()

async function run(order: Order): Promise<void> {
  const { rollout_id, attempt_id } = order
  const status = await attempt(order).catch((error: Error) => {
    console.error(`rollout ${rollout_id}: ${error.message}`)
    return 'failed'
  })
  console.log(JSON.stringify({ rollout_id, attempt_id, status }))
}

/** The rollout is closed as soon as its status is out: everything is delivered by then. */
async function attempt({ rollout_id, attempt_id, input, base_url, model, sampling_parameters, traceparent }: Order): Promise<string> {
  const client = new OpenAI({ baseURL: base_url, apiKey: 'none', maxRetries: RETRIES })
  const parent = propagation.extract(context.active(), { traceparent })
  const answer = await context.with(parent, () => solve({ client, model, ...sampling_parameters }, input.question))
  // The policy spells numbers digit by digit.
  const digits = answer?.replaceAll(' ', '')
  await Promise.all([score(rollout_id, attempt_id, digits === String(input.answer)), flushSpans()])
  return answer === null ? 'limit' : 'succeeded'
}
