// What becomes of an agent whose model answers rubbish: it ends, with a reward.

import { expect, test } from 'vitest'

import { scripted, startEndpoint } from '../../test/openai.ts'
import { answer } from './agent.ts'
import { score } from './score.ts'

const call = (name: string, args: string) => ({ text: '', tool_calls: [{ name, arguments: args }] })

test.each([
  ['answers', [{ text: '<answer> lima </answer>' }], '<answer> lima </answer>', 1],
  [
    'searches, then answers',
    [call('search', '{"query":"ann hale born_in"}'), { text: '<answer> lima </answer>' }],
    '<answer> lima </answer>',
    1,
  ],
  ['says nothing', [{ text: '' }], '', 0],
  ['begins a call and does not end it', [{ text: '<tool_call> {"name": "search"' }], '<tool_call> {"name": "search"', 0],
  ['writes arguments that are none, then answers', [call('search', '{"que'), { text: 'lima' }], 'lima', 0.9],
  ['searches for nothing, then answers', [call('search', '{"query":""}'), { text: 'lima' }], 'lima', 0.9],
  ['calls a tool that there is not', [call('fly', '{}')], null, 0],
  ['never ends searching', [call('search', '{"query":"lima"}')], null, 0],
])('a model that %s', async (_, answers, said, reward) => {
  const { url } = await startEndpoint(scripted(answers))
  const last = await answer({ base_url: `${url}/v1`, model: 'demo', max_tokens: 200 }, 'where was the star of silent river born ?')
  expect(last).toBe(said)
  expect(score(last ?? '', 'lima')).toBeCloseTo(reward, 12)
})
