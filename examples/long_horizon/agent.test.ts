// What becomes of an order whose tools fail, or whose model answers rubbish: it ends, with a reward.

import OpenAI from 'openai'
import { expect, test } from 'vitest'

import { startUpstream } from '../../test/openai.ts'
import { fulfil } from './agent.ts'
import { DESKS, openWarehouse } from './warehouse.ts'

const WORKS = () => 0
const FAILS = () => 1
const say = (content: string) => ({ role: 'assistant', content })
const call = (name: string, args = '{"item":"lamp"}') => {
  return { ...say(''), tool_calls: [{ id: 'call', type: 'function', function: { name, arguments: args } }] }
}
const way = DESKS.map(({ tool }) => call(tool))

test.each([
  ['finds every tool', way, WORKS, true, 6],
  ['has a tool that always fails', [call('check')], FAILS, false, 24],
  ['only ever looks', [call('look')], WORKS, false, 24],
  ['asks for what there is not, then finds every tool', [call('check', '{"item":"moon"}'), ...way], WORKS, true, 7],
  ['writes arguments that are none, then finds every tool', [call('check', '{"it'), ...way], WORKS, true, 7],
  ['calls a tool that there is not, then finds every tool', [call('fly'), ...way], WORKS, true, 7],
  ['gives up', [call('check'), say('sorry')], WORKS, false, 2],
  ['says nothing', [say('')], WORKS, false, 1],
])('an agent that %s', async (_, answers, random, left, calls) => {
  // The last is repeated.
  const { url, asked } = await startUpstream((_, __, response) => {
    const message = answers[asked.length - 1] ?? answers.at(-1)
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ choices: [{ index: 0, message }] }))
  })
  const client = new OpenAI({ baseURL: url, apiKey: 'none' })
  expect(await fulfil({ client, model: 'demo' }, 'lamp', openWarehouse('lamp', random))).toBe(left)
  expect(asked).toHaveLength(calls)
})
