// The agent as a worker of `leyden rollouts run`: it solves the problem of an order, and its answer is scored.

import { context, propagation } from '@opentelemetry/api'
import OpenAI from 'openai'

import { answerOrders } from '../orders.ts'
import { solve } from './agent.ts'
import { score } from './score.ts'
import { flushSpans, stopTracing } from './tracing.ts'

const RETRIES = 8

/** The rollout is closed as soon as its status is out: everything is delivered by then. */
await answerOrders(async ({ rollout_id, attempt_id, input, base_url, model, sampling_parameters, traceparent }) => {
  const { question, answer: right } = input as { question: string; answer: number }
  const client = new OpenAI({ baseURL: base_url, apiKey: 'none', maxRetries: RETRIES })
  const parent = propagation.extract(context.active(), { traceparent })
  const answer = await context.with(parent, () => solve({ client, model, ...sampling_parameters }, question))
  // The policy spells numbers digit by digit.
  const digits = answer?.replaceAll(' ', '')
  await Promise.all([score(rollout_id, attempt_id, digits === String(right)), flushSpans()])
  return { status: answer === null ? 'limit' : 'succeeded' }
})
await stopTracing()
