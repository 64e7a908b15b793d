import { openai } from '@ai-sdk/openai'
import { generateText, stepCountIs, tool } from 'ai'
import { z } from 'zod'

import { stopTracing } from './tracing.ts'

const weather = tool({
  description: 'The weather in a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `18 degrees in ${city}`,
})
const { text } = await generateText({
  model: openai.chat(process.env.MODEL ?? 'gpt-5-mini'),
  tools: { weather },
  stopWhen: stepCountIs(5),
  prompt: 'How warm is it in Rome?',
  experimental_telemetry: { isEnabled: true, functionId: 'weather_agent' },
})
console.log(text)
await stopTracing()
