import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, expect, test } from 'vitest'

import { wordLevelFolder } from '../test/policy.ts'
import { seeded } from '../test/random.ts'
import { FormFailed, type Form } from './decoding.ts'
import { openForms, type Held } from './form.ts'
import { openTokenizer } from './tokenizer.ts'
import hermes from './tool_parsers/hermes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'leyden-form-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const tokenizer = await openTokenizer(join(import.meta.dirname, '../test/fixtures/policy/tokenizer'))
const [END] = tokenizer.eos_ids
const json = (schema: object): Form => ({ texts: [[{ schema: schema as never, exact: true }]], several: [], most: 1 })
const idsIn = (mask: Uint32Array): number[] =>
  Array.from({ length: mask.length * 32 }, (_, id) => id).filter((id) => mask[id >>> 5]! & (1 << (id & 31)))

/** Draws without a policy: any token that is allowed, those that end something more often, so that it ends. */
function drawn(held: Held, random: (n: number) => number): number[] {
  for (const ids: number[] = []; ;) {
    const allowed = idsIn(held.allowed())
    const ends = allowed.filter((id) => id === END || /^["\]}]/.test(tokenizer.decode([id])))
    const id = ends.length > 0 && random(2) === 0 ? ends[random(ends.length)]! : allowed[random(allowed.length)]!
    if (id === END) return ids
    ids.push(id)
    held.take(id)
  }
}

test('whatever is drawn is JSON of the schema, characters of several tokens among it', () => {
  const random = seeded(9)
  const forms = openForms(tokenizer)
  const schema = {
    type: 'object',
    properties: { text: { type: 'string' }, list: { type: 'array', items: { type: 'number' } } },
    required: ['text'],
  }
  const texts = Array.from({ length: 60 }, () => tokenizer.decode(drawn(forms(json(schema)), random)))
  for (const text of texts) expect(JSON.parse(text)).toMatchObject({ text: expect.any(String) })
  expect(texts.some((text) => /[^ -~\s]/.test(text))).toBe(true)
  expect(texts.join()).not.toContain('\uFFFD')
})

test('a token is allowed where the text that it makes can still become one of the form, and no other is', () => {
  const random = seeded(4)
  const texts = ['{"a":"one"}', '{"a":"two"}', '[12,', '[120]', '[1,2]', 'true', '"é"'].map((text) => [text])
  const held = openForms(tokenizer)({ texts, several: [], most: 1 })
  const plain = texts.flatMap(([text]) => ['', ' '].map((blank) => Buffer.from(blank + text!)))
  let said = Buffer.alloc(0)
  for (let i = 0; i < 30; i++) {
    const goes = (id: number) => {
      const next = Buffer.concat([said, tokenizer.bytes(id)])
      return (
        tokenizer.bytes(id).length > 0 && !tokenizer.special.has(id) && plain.some((text) => text.subarray(0, next.length).equals(next))
      )
    }
    const wanted = Array.from({ length: 420 }, (_, id) => id).filter(
      (id) => goes(id) || (id === END && plain.some((text) => text.equals(said))),
    )
    const allowed = idsIn(held.allowed()).filter((id) => !/^(\n| {2}|\t)/.test(tokenizer.decode([id])))
    expect(allowed).toEqual(wanted)
    const id = allowed[random(allowed.length)]!
    if (id === END) break
    said = Buffer.concat([said, tokenizer.bytes(id)])
    held.take(id)
  }
})

test('calls are written as the parser reads them, with the tokens that stand for its tags', () => {
  const random = seeded(2)
  const args = { schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }, exact: true }
  const forms = openForms(tokenizer)
  for (let i = 0; i < 20; i++) {
    const ids = drawn(forms({ texts: [], several: [hermes.form('f', args), hermes.form('g', args)], most: 3 }), random)
    const stream = hermes.stream()
    const calls = [...stream.push(tokenizer.decode(ids)), ...stream.end()].filter(
      (piece) => piece.kind !== 'content' || piece.text.trim() !== '',
    )
    expect(calls.length).toBeLessThanOrEqual(3)
    for (const piece of calls)
      expect(piece).toMatchObject({
        kind: 'call',
        call: { name: expect.stringMatching(/^[fg]$/), arguments: expect.stringContaining('n') },
      })
  }
})

test('words with a space between them are read with it; where they cannot go on, it is said', async () => {
  const words = await openTokenizer(wordLevelFolder(join(scratch, 'words'), ['{"to":"', 'paris', 'rome', '"}', '[']))
  const held = openForms(words)(json({ type: 'object', properties: { to: { type: 'string' } } }))
  const idOf = (word: string) => Array.from({ length: 7 }, (_, id) => id).find((id) => words.decode([id]) === word)!
  const allowed = () => idsIn(held.allowed()).map((id) => words.decode([id]))
  expect(allowed()).toEqual(['{"to":"'])
  held.take(idOf('{"to":"'))
  expect(allowed()).toEqual(['paris', 'rome', '"}', '['])
  held.take(idOf('paris'))
  held.take(idOf('"}'))
  expect(allowed()).toEqual(['<eos>'])
  expect(held.ended()).toBe(false)

  const stuck = openForms(words)(json({ type: 'array', items: { type: 'null' } }))
  stuck.take(idOf('['))
  expect(() => stuck.allowed()).toThrow(FormFailed)
})
