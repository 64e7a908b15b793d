import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain'
import * as callbacks from '@langchain/core/callbacks/manager'
import { tool } from '@langchain/core/tools'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

import { stopTracing } from './tracing.ts'

process.env.LANGCHAIN_CALLBACKS_BACKGROUND = 'false'
new LangChainInstrumentation().manuallyInstrument(callbacks)

const weather = tool(({ city }) => `18 degrees in ${city}`, {
  name: 'weather',
  description: 'The weather in a city.',
  schema: z.object({ city: z.string() }),
})
const agent = createReactAgent({ llm: new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-5-mini' }), tools: [weather] })
const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'How warm is it in Rome?' }] })
console.log(messages.at(-1)?.text)
await stopTracing()
