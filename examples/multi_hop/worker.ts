// The agent as a worker of `leyden rollouts run`, traced by leyden/agent.

import { worker } from '../../agent/index.ts'
import { answer } from './agent.ts'
import { score } from './score.ts'
import type { Question } from './tasks.ts'

await worker(async ({ input, base_url, model, sampling_parameters }) => {
  const { question, answer: right } = input as Question
  const said = await answer({ base_url, model, ...sampling_parameters }, question)
  return said === null ? { status: 'limit', reward: 0 } : score(said, right)
})
