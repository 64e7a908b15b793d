// The same agent and worker for a program that runs no OpenTelemetry: `leyden/agent` traces the client and the tool, and speaks with
// `leyden rollouts run`. What becomes of it is the same.

import OpenAI from 'openai'

import { agent, tool, trace, worker } from '../../agent/index.ts'
import { calculator, evaluate } from './calculator.ts'
import { score } from './score.ts'

const MAX_TURNS = 3
const RETRIES = 8

const calculate = tool('calculator', ({ expression }: { expression: string }) => String(evaluate(expression)))

await worker(async ({ rollout_id, attempt_id, input, base_url, model, sampling_parameters }) => {
  const task = input as { readonly question: string; readonly answer: number }
  const client = trace(new OpenAI({ baseURL: base_url, apiKey: 'none', maxRetries: RETRIES }))
  const answer = await agent('calculator_agent', () => solve(client, { model, ...sampling_parameters }, task.question))
  await score(rollout_id, attempt_id, answer?.replaceAll(' ', '') === String(task.answer))
  return { status: answer === null ? 'limit' : 'succeeded' }
})

async function solve(client: OpenAI, asking: { model: string; temperature?: number }, question: string): Promise<string | null> {
  const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [{ role: 'user', content: question }]
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const { choices } = await client.chat.completions.create({ ...asking, messages, tools: [calculator] })
    const { message } = choices[0]!
    messages.push(message)
    if (!message.tool_calls?.length) return message.content
    for (const call of message.tool_calls) {
      if (call.type !== 'function') continue
      const content = await calculate(JSON.parse(call.function.arguments)).catch(({ message }: Error) => message)
      messages.push({ role: 'tool', tool_call_id: call.id, content })
    }
  }
  return null
}
