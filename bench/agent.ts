// What leyden/agent costs an agent: a traced call of the model against an untraced one, with a client that answers at once.

import { dropped, rollout, trace } from '../agent/index.ts'
import { formatTable } from './table.ts'

const WARM_UP = 2_000
const CALLS = 20_000
const MESSAGES = [
  { role: 'system', content: 'You answer questions about orders.' },
  { role: 'user', content: 'How much is order 1042 in euros?' },
]
const ANSWER = {
  id: 'chatcmpl-1',
  model: 'policy',
  usage: { prompt_tokens: 20, completion_tokens: 8 },
  choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Order 1042 costs 41.40 EUR.' } }],
}

/** As much of an OpenAI client as is looked at. */
const clientOf = () => ({
  chat: {
    completions: {
      create(_body: object, _options?: object) {
        const answer = {
          asResponse: async () => ({}),
          parseResponse: async () => ANSWER,
          then: (resolve: (value: unknown) => void) => void answer.parseResponse().then(resolve),
        }
        return answer
      },
    },
  },
})

export async function agentCalls(): Promise<void> {
  // Nobody listens: what is tried to be delivered fails soon.
  Object.assign(process.env, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_TIMEOUT: '100' })
  const plain = await costOf(clientOf())
  const traced = await costOf(trace(clientOf()))
  const rows = [
    ['untraced', plain.toFixed(1)],
    ['traced by leyden/agent', traced.toFixed(1)],
    ['difference', (traced - plain).toFixed(1)],
  ]
  console.log(formatTable(['call', 'µs of CPU'], rows))
  console.log(`\n${dropped()} spans were dropped.`)
}

/** Nearly without delivery: the queue is full after some thousand spans, and what an exporter costs is its own. */
async function costOf(client: ReturnType<typeof clientOf>): Promise<number> {
  const run = async (calls: number) => {
    for (let i = 0; i < calls; i++) await client.chat.completions.create({ model: 'policy', messages: MESSAGES })
  }
  return rollout(async () => {
    await run(WARM_UP)
    const before = process.cpuUsage()
    await run(CALLS)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / CALLS
  })
}
