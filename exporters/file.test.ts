import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { Permanent, type Item, type Signal } from '../pipeline/component.ts'
import { conforms, configure, logBatch, rollout, spanBatch } from '../test/conformance.ts'
import { traces } from '../test/spans.ts'
import file from './file.ts'

conforms(file, { path: '/tmp/never-opened' })

async function freshPath(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), 'leyden-')), 'out.jsonl')
}

/** The lines of a file after exports to it. */
async function written(path: string, ...exports: [Signal, readonly Item[]][]): Promise<any[]> {
  const exporter = configure(file, { path })
  await exporter.start?.()
  await Promise.all(exports.map(([signal, items]) => exporter.export(items, signal, new AbortController().signal)))
  await exporter.shutdown?.()
  const lines = (await readFile(path, 'utf8')).split('\n')
  expect(lines.pop()).toBe('')
  return lines.map((line) => JSON.parse(line))
}

test('spans and log records are OTLP/JSON, one request a line', async () => {
  const spans = [
    { id: 'a', attributes: { tries: 2 } },
    { id: 'b', parent: 'a' },
  ]
  const [request, records] = await written(await freshPath(), ['traces', [spanBatch(spans)]], ['logs', [logBatch()]])
  expect(fromJson('traces', request)).toEqual(fromJson('traces', traces('trace', spans)))
  expect(records.resourceLogs[0].scopeLogs[0].logRecords[0].eventName).toBe('leyden.rollout.end')
})

test('a rollout is one line, with its calls, transitions and exact times', async () => {
  const given = rollout({ calls: 2, reward: 0.5 })
  const [line] = await written(await freshPath(), ['rollouts', [given]])
  expect(line).toMatchObject({
    rollout_id: 'r1',
    outcome: 0.5,
    started_at: String(given.started_at),
    transitions: [{ step: 0 }, { step: 1 }],
  })
  expect(line.calls[1].prompt[0].parts[0].text).toBe('question 1')
  expect(line.transitions[1].span_id).toBe(line.calls[1].span_id)
})

test('lines are added to what the file holds, and never mixed', async () => {
  const path = await freshPath()
  await writeFile(path, '{"old":true}\n')
  const many = Array.from({ length: 20 }, (_, i): [Signal, readonly Item[]] => ['rollouts', [rollout({ rollout_id: `r${i}`, calls: 20 })]])
  const lines = await written(path, ...many)
  expect(lines.map((line) => line.rollout_id)).toEqual([undefined, ...many.map((_, i) => `r${i}`)])
})

test('what cannot be written as a line is refused for good, and costs nobody else', async () => {
  const path = await freshPath()
  const exporter = configure(file, { path })
  await exporter.start?.()
  const circle: { itself?: unknown } = {}
  circle.itself = circle
  const odd = rollout({ rollout_id: 'odd', problems: [circle as never] })
  await expect(exporter.export([odd], 'rollouts', new AbortController().signal)).rejects.toThrow(Permanent)
  await exporter.export([rollout({ rollout_id: 'even' })], 'rollouts', new AbortController().signal)
  await exporter.shutdown?.()
  expect(JSON.parse(await readFile(path, 'utf8')).rollout_id).toBe('even')
})

test('a full disk is an error that may pass', async () => {
  const exporter = configure(file, { path: '/dev/full' })
  await exporter.start?.()
  await expect(exporter.export([rollout()], 'rollouts', new AbortController().signal)).rejects.toThrow('cannot write /dev/full: ENOSPC')
  await exporter.shutdown?.()
})

test('a file that cannot be opened keeps it from starting, and names the option', async () => {
  await expect(configure(file, { path: '/no/such/folder/out.jsonl' }).start?.()).rejects.toThrow(
    "exporters::test::path: ENOENT: no such file or directory, open '/no/such/folder/out.jsonl'",
  )
})
