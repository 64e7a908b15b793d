import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain'
import * as callbacks from '@langchain/core/callbacks/manager'
import { ChatPromptTemplate } from '@langchain/core/prompts'
import { ChatOpenAI } from '@langchain/openai'

import { stopTracing } from './tracing.ts'

process.env.LANGCHAIN_CALLBACKS_BACKGROUND = 'false'
new LangChainInstrumentation().manuallyInstrument(callbacks)

const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-5-mini' })
const chain = ChatPromptTemplate.fromMessages([['user', 'Which city is the capital of {country}?']]).pipe(model)
console.log((await chain.invoke({ country: 'Peru' }, { runName: 'capitals' })).text)
await stopTracing()
