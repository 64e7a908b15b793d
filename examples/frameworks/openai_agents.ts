import { OpenAIInstrumentation } from '@arizeai/openinference-instrumentation-openai'
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from '@openai/agents'
import { trace } from '@opentelemetry/api'
import OpenAI from 'openai'
import { z } from 'zod'

import { stopTracing } from './tracing.ts'

new OpenAIInstrumentation().manuallyInstrument(OpenAI)
setDefaultOpenAIClient(new OpenAI() as never) // The types of its own copy of the client differ.
setOpenAIAPI('chat_completions')
setTracingDisabled(true) // The SDK's own traces go to OpenAI, and not by OTLP.

const weather = tool({
  name: 'weather',
  description: 'The weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `18 degrees in ${city}`,
})
const agent = new Agent({ name: 'weather_agent', model: process.env.MODEL ?? 'gpt-5-mini', tools: [weather] })
await trace.getTracer('weather').startActiveSpan('invoke_agent weather_agent', async (span) => {
  console.log((await run(agent, 'How warm is it in Rome?')).finalOutput)
  span.end()
})
await stopTracing()
