// docs/recipes/prepare.py on rows such as its data sets hold.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, expect, test } from 'vitest'

const folder = mkdtempSync(join(tmpdir(), 'leyden-recipes-'))
afterAll(() => rmSync(folder, { recursive: true }))
const python = spawnSync('python3', ['--version']).status === 0

const spider = JSON.stringify([{ db_id: 'singers', question: 'How many?', query: 'SELECT count(*) FROM singer', query_toks: [] }])
const musique = { id: '2hop__1_2', question: 'Where?', answer: 'Rome', answer_aliases: ['Roma'], answerable: true, paragraphs: [] }
const calc_x = { id: 'gsm8k__0', question: '2 + 3?', chain: '<gadget>', result: '5' }

test.skipIf(!python).each([
  ['spider', spider, { task_id: 'spider-0', database: 'singers', question: 'How many?', sql: 'SELECT count(*) FROM singer' }],
  ['musique', `${JSON.stringify(musique)}\n`, { task_id: '2hop__1_2', question: 'Where?', answers: ['Rome', 'Roma'] }],
  ['calc_x', `${JSON.stringify(calc_x)}\n`, { task_id: 'gsm8k__0', question: '2 + 3?', answer: '5' }],
])(`rows of %s become tasks${python ? '' : ' (skipped: no python3)'}`, (name, rows, task) => {
  const file = join(folder, name)
  writeFileSync(file, rows)
  const { stdout, stderr } = spawnSync('python3', ['docs/recipes/prepare.py', name, file], { encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual(task)
})
