// What becomes of an agent whose tool always fails, here a database that can read none of its queries: it ends, with a reward.

import { ChatOpenAI } from '@langchain/openai'
import { expect, test } from 'vitest'

import { seeded } from '../random.ts'
import { scripted, startEndpoint } from '../../test/openai.ts'
import { answer } from './agent.ts'
import { sameAnswer } from './sqlite.ts'
import { question } from './tasks.ts'

const task = question('train', seeded(1))

test.each([
  ['right at once', [{ text: task.sql }, { text: 'correct' }], task.sql, true],
  ['wrong until it is rewritten', [{ text: 'select' }, { text: 'incorrect' }, { text: task.sql }, { text: 'correct' }], task.sql, true],
  ['never one that can be read', [{ text: 'select from where' }], 'select from where', false],
  ['no query at all', [{ text: 'drop table' }], 'drop table', false],
  ['nothing', [{ text: '' }], '', false],
])('a query that is %s', async (_, answers, sql, right) => {
  const { url } = await startEndpoint(scripted(answers))
  const model = new ChatOpenAI({ model: 'demo', apiKey: 'none', configuration: { baseURL: `${url}/v1` } })
  const last = await answer(model, task)
  expect(last).toBe(sql)
  expect(sameAnswer(task.database, last, task.sql)).toBe(right)
})
