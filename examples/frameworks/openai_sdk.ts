import { OpenAIInstrumentation } from '@arizeai/openinference-instrumentation-openai'
import { trace } from '@opentelemetry/api'
import OpenAI from 'openai'

import { stopTracing } from './tracing.ts'

new OpenAIInstrumentation().manuallyInstrument(OpenAI)

const model = process.env.MODEL ?? 'gpt-5-mini'
const client = new OpenAI()
// The client does not know where a run begins: without a span around it, each call is a trace, and so a rollout, of its own.
await trace.getTracer('capitals').startActiveSpan('invoke_agent capitals', async (span) => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Which city is the capital of Peru?' }]
  const first = await client.chat.completions.create({ model, messages })
  messages.push(first.choices[0]!.message, { role: 'user', content: 'Are you sure?' })
  const second = await client.chat.completions.create({ model, messages })
  console.log(second.choices[0]!.message.content)
  span.end()
})
await stopTracing()
