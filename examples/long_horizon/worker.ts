// The agents as a worker of `leyden rollouts run`, traced by leyden/agent.

import OpenAI from 'openai'

import { trace, worker } from '../../agent/index.ts'
import { fulfil } from './agent.ts'
import type { Order } from './tasks.ts'
import { openWarehouse } from './warehouse.ts'

await worker(async ({ input, base_url, model, sampling_parameters }) => {
  const { item } = input as Order
  const client = trace(new OpenAI({ baseURL: base_url, apiKey: 'none' }))
  const left = await fulfil({ client, model, temperature: 1, ...sampling_parameters }, item, openWarehouse(item, Math.random))
  return left ? 1 : 0
})
