// The agent as a worker of `leyden rollouts run`. Only this file knows Leyden's addresses, and they come with the order and the environment.

import { ChatOpenAI } from '@langchain/openai'
import { context, propagation } from '@opentelemetry/api'

import { answerOrders } from '../orders.ts'
import { flushSpans, stopTracing } from './tracing.ts'
import { answer } from './agent.ts'
import { sameAnswer } from './sqlite.ts'
import type { Question } from './tasks.ts'

const MOST_TOKENS = 22

await answerOrders(async ({ input, base_url, model, sampling_parameters, traceparent }) => {
  const question = input as Question
  const chat = new ChatOpenAI({
    ...{ model, apiKey: 'none', maxTokens: MOST_TOKENS, temperature: 1, ...sampling_parameters },
    configuration: { baseURL: base_url },
  })
  const parent = propagation.extract(context.active(), { traceparent })
  const sql = await context.with(parent, () => answer(chat, question))
  await flushSpans()
  return { status: 'succeeded', reward: sameAnswer(question.database, sql, question.sql) ? 1 : 0 }
})
await stopTracing()
