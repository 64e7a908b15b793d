import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, describe, expect, test } from 'vitest'

import { seeded } from '../test/random.ts'
import { wordLevelFolder } from '../test/policy.ts'
import type { ChatMessage } from './chat_template.ts'
import { openTokenizer } from './tokenizer.ts'

const FOLDER = join(import.meta.dirname, '../test/fixtures/policy/tokenizer')
const expected = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8')) as {
  strings: { text: string; ids: number[]; decoded: string }[]
  chats: { name: string; messages: ChatMessage[]; tools: unknown[] | null; add_generation_prompt: boolean; text: string; ids: number[] }[]
}
const tokenizer = await openTokenizer(FOLDER)
const scratch = mkdtempSync(join(tmpdir(), 'leyden-tokenizer-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const streamed = (ids: readonly number[], { stream } = tokenizer): string => {
  const text = stream()
  return ids.map((id) => text.push(id)).join('') + text.end()
}

describe('as transformers does it', () => {
  test.each(expected.strings)('$text is encoded, decoded and streamed', ({ text, ids, decoded }) => {
    expect(tokenizer.encode(text)).toEqual(ids)
    expect(tokenizer.decode(ids)).toBe(decoded)
    expect(streamed(ids)).toBe(decoded)
  })

  test.each(expected.chats)('the chat "$name" is rendered and encoded', ({ messages, tools, add_generation_prompt, text, ids }) => {
    expect(tokenizer.chat(messages, { tools: tools ?? undefined, add_generation_prompt })).toEqual({ text, ids })
  })
})

test('vocabulary and the tokens that end an answer are known', () => {
  expect(tokenizer.vocab_size).toBe(420)
  expect(tokenizer.eos_ids).toEqual([2])
})

test('whatever a policy draws is streamed as it is decoded, and never with half a character', () => {
  const random = seeded(1)
  for (let round = 0; round < 300; round++) {
    const ids = Array.from({ length: 1 + random(30) }, () => random(tokenizer.vocab_size + 5))
    expect(streamed(ids)).toBe(tokenizer.decode(ids))
  }
  const rocket = tokenizer.stream()
  const pieces = tokenizer.encode('🚀é').map((id) => rocket.push(id))
  expect(pieces.filter((piece) => piece !== '')).toEqual(['🚀', 'é'])
})

describe('chats', () => {
  const call = { type: 'function', function: { name: 'add', arguments: '{"a":1}' } }
  const prompt = { add_generation_prompt: true }

  test('arguments are given as the policy wrote them to a template that takes text', () => {
    expect(tokenizer.chat([{ role: 'assistant', content: null, tool_calls: [call] }], prompt).text).toContain('"arguments": {"a":1}}')
  })

  test('and as an object to one that does not', async () => {
    const folder = wordLevelFolder(join(scratch, 'object'), ['a'], {
      chat_template: '{% for c in messages[0].tool_calls %}{{ c.function.arguments.a }}{% endfor %}',
    })
    const { text } = (await openTokenizer(folder)).chat([{ role: 'assistant', tool_calls: [call] }], prompt)
    expect(text).toBe('1')
  })

  test('parts of text are joined, and a picture is refused', () => {
    const parts = [
      { type: 'text', text: 'How many ' },
      { type: 'text', text: 'singers are older than 30?' },
    ]
    expect(tokenizer.chat([{ role: 'user', content: parts }], prompt).text).toBe(expected.chats[0]!.text)
    expect(() => tokenizer.chat([{ role: 'user', content: [{ type: 'image_url' }] }], prompt)).toThrow('reads text only')
  })

  test('a template may be one of several, and may refuse', async () => {
    const chat_template = [
      { name: 'default', template: "{{ raise_exception('only with tools') }}" },
      { name: 'tool_use', template: 'tools' },
    ]
    const several = await openTokenizer(wordLevelFolder(join(scratch, 'several'), ['tools'], { chat_template }))
    expect(several.chat([], { tools: [{}], add_generation_prompt: false }).text).toBe('tools')
    expect(() => several.chat([], prompt)).toThrow('does not take these messages: only with tools')
  })

  test('a folder without a template says so', async () => {
    const bare = await openTokenizer(wordLevelFolder(join(scratch, 'bare'), ['a']))
    expect(() => bare.chat([{ role: 'user', content: 'a' }], prompt)).toThrow('has no chat template; add chat_template.jinja')
  })
})

describe('a word-level tokenizer', () => {
  test('reads words and punctuation, and counts the words that it does not know', async () => {
    const words = await openTokenizer(wordLevelFolder(join(scratch, 'words'), ['add', '(', ')', '3', '4', ',']))
    const ids = words.encode('add ( 3, 4 )')
    expect(words.decode(ids)).toBe('add ( 3 , 4 )')
    expect(streamed(ids, words)).toBe('add ( 3 , 4 )')
    expect(words.unknown()).toBe(0)
    expect(words.decode(words.encode('add seven'))).toBe('add <unk>')
    expect(words.unknown()).toBe(1)
  })

  test('without an unknown token names the word', async () => {
    const strict = await openTokenizer(wordLevelFolder(join(scratch, 'strict'), ['add'], {}, null))
    expect(() => strict.encode('add seven')).toThrow('has no token for "seven"')
  })
})

test.each([
  ['none', undefined, /tokenizer.json: not found/],
  ['no JSON', '{', /tokenizer.json: .*JSON/],
  ['another form', '{"model": {"type": "Quantum"}}', /tokenizer.json: /],
])('a folder with a tokenizer.json of %s is refused, naming the file', async (name, content, message) => {
  const folder = mkdtempSync(join(scratch, 'bad-'))
  if (content) writeFileSync(join(folder, 'tokenizer.json'), content)
  await expect(openTokenizer(folder)).rejects.toThrow(message)
})
