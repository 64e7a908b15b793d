import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { parseAnswer } from '../../policy/tool_parsers/parser.ts'
import hermes from '../../policy/tool_parsers/hermes.ts'
import { openTokenizer, type Tokenizer } from '../../policy/tokenizer.ts'
import { seeded } from '../random.ts'
import { demonstration } from './demonstrations.ts'
import { END, vocab_size, writeLanguage } from './language.ts'

const folder = mkdtempSync(join(tmpdir(), 'leyden-'))
let tokenizer: Tokenizer

beforeAll(async () => {
  writeLanguage(folder)
  tokenizer = await openTokenizer(folder)
})

afterAll(() => rmSync(folder, { recursive: true }))

const call = (expression: string) => `<tool_call>\n{"name": "calculator", "arguments": {"expression": "${expression}"}}\n</tool_call>`

test('a call of the calculator is its expression between two tokens, and is read as a call', () => {
  const ids = tokenizer.encode(call('34-12'))
  expect(ids).toHaveLength(7)
  expect(tokenizer.decode(ids)).toBe(call('34-12'))
  expect(parseAnswer(hermes, tokenizer.decode(ids)).calls).toEqual([{ name: 'calculator', arguments: '{"expression": "34-12"}' }])
})

test('what demonstrators write is in the vocabulary', () => {
  const random = seeded(1)
  for (let i = 0; i < 500; i++) {
    const { messages, reply } = demonstration(random)
    tokenizer.chat(messages, { add_generation_prompt: true })
    tokenizer.encode(reply)
  }
  expect(tokenizer.unknown()).toBe(0)
  expect(tokenizer.vocab_size).toBe(vocab_size)
  expect(tokenizer.eos_ids).toEqual([END])
})

test('the second prompt begins with the first one and what the policy wrote', () => {
  const question = { role: 'user', content: 'Tom has 34 apples and gives 12. How many now?' }
  const first = tokenizer.chat([question], { add_generation_prompt: true }).ids
  const written = [...tokenizer.encode(call('34-12')), END]
  const tool_calls = [{ id: 'call_1', type: 'function', function: { name: 'calculator', arguments: '{"expression": "34-12"}' } }]
  const messages = [question, { role: 'assistant', content: null, tool_calls }, { role: 'tool', content: '22', tool_call_id: 'call_1' }]
  const second = tokenizer.chat(messages, { add_generation_prompt: true }).ids
  expect(second.slice(0, first.length + written.length)).toEqual([...first, ...written])
  expect(tokenizer.decode(second.slice(first.length + written.length))).toBe('<|tool|>22<|assistant|>')
})
