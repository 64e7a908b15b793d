// Answers questions that take two facts by searching for them, with the OpenAI Agents SDK. `traced` makes a span of each search.

import { Agent, MaxTurnsExceededError, ModelBehaviorError, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents'
import { z } from 'zod'

import { tool as traced } from '../../agent/index.ts'
import { search } from './documents.ts'
import { INSTRUCTIONS } from './prompts.ts'

const MOST_TURNS = 3
const MOST_TOKENS = 12

// Its own tracing goes to OpenAI; ours is the endpoint's.
setTracingDisabled(true)

export interface Asking {
  readonly base_url: string
  readonly model: string
  readonly temperature?: number
  readonly max_tokens?: number
}

/** What the agent says last; null where it only ever searched, or wrote what the SDK takes for no answer at all. */
export async function answer(
  { base_url, model, temperature = 1, max_tokens = MOST_TOKENS }: Asking,
  question: string,
): Promise<string | null> {
  const told = new Set<string>()
  const agent = new Agent({
    name: 'searcher',
    instructions: INSTRUCTIONS,
    model,
    modelSettings: { temperature, maxTokens: max_tokens },
    tools: [
      tool({
        name: 'search',
        description: 'The documents nearest to a query, those that it has not given yet.',
        parameters: z.object({ query: z.string() }),
        execute: traced('search', ({ query }: { query: string }) => {
          const fresh = search(query.trim()).filter((document) => !told.has(document))
          fresh.forEach((document) => told.add(document))
          return fresh.join(' ; ')
        }),
      }),
    ],
  })
  const runner = new Runner({ modelProvider: new OpenAIProvider({ baseURL: base_url, apiKey: 'none', useResponses: false }) })
  try {
    return (await runner.run(agent, question, { maxTurns: MOST_TURNS })).finalOutput ?? null
  } catch (error) {
    if (error instanceof MaxTurnsExceededError || error instanceof ModelBehaviorError) return null
    throw error
  }
}
