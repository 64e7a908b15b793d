import { appendFile, mkdtemp, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { beforeEach, expect, onTestFinished, test } from 'vitest'

import { itemName, traceId } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Permanent, Refused } from '../pipeline/component.ts'
import { configure, conforms, problems, testContext } from '../test/conformance.ts'
import { endOf, traces } from '../test/spans.ts'
import otlp_json_file from './otlp_json_file.ts'

conforms(otlp_json_file, { include: ['/tmp/no-such-folder/*.json'] })

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-files-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

const at = (name: string) => join(folder, name)
const line = (name: string) => `${JSON.stringify(traces(name, [{ id: name }]))}\n`

/** A receiver of the folder's files, and the names of what it passed on. */
async function receive(options: object = {}, accept: (batches: readonly SpanBatch[]) => void = () => {}) {
  const context = testContext({ kind: 'receiver' })
  const receiver = configure(
    otlp_json_file,
    { include: [at('*.json')], progress_file: at('progress'), poll_interval: '5ms', ...options },
    context,
  )
  const names: string[] = []
  async function taken(batches: readonly SpanBatch[]): Promise<void> {
    accept(batches)
    for (const batch of batches) for (let i = 0; i < batch.count; i++) names.push(itemName(batch, i))
  }
  await receiver.start({ traces: taken, logs: taken })
  return { names, context, stop: () => receiver.shutdown!() }
}

test('lines of every file that matches are read, then what is appended, and a new file', async () => {
  await writeFile(at('a.json'), line('a1') + line('a2'))
  await writeFile(at('b.txt'), line('other'))
  const { names, context, stop } = await receive()
  await expect.poll(() => names).toEqual(['a1', 'a2'])
  await appendFile(at('a.json'), line('a3').slice(0, 40))
  await writeFile(at('b.json'), line('b1'))
  await expect.poll(() => names).toEqual(['a1', 'a2', 'b1'])
  await appendFile(at('a.json'), line('a3').slice(40))
  await expect.poll(() => names).toEqual(['a1', 'a2', 'b1', 'a3'])
  await stop()
  expect(context.counts).toEqual({ receiver_accepted_spans: 4 })
})

test('a document over many lines is read when it is whole; so is a line without an end', async () => {
  const document = JSON.stringify({ ...traces('t', [{ id: 'span' }]), ...endOf('r') }, null, 2)
  await writeFile(at('a.json'), document.slice(0, 200))
  await writeFile(at('b.json'), line('b').trim())
  const { names, context, stop } = await receive()
  await expect.poll(() => names).toEqual(['b'])
  await writeFile(at('a.json'), document)
  await expect.poll(() => names).toEqual(['b', 'span', 'leyden.rollout.end'])
  await stop()
  expect(context.counts).toEqual({ receiver_accepted_spans: 2, receiver_accepted_log_records: 1 })
})

test('a bad line costs one line: it is counted, and the log says where it is', async () => {
  const other = '{"resourceMetrics":[]}\n'
  const bad = ['{"resourceSpans":[{"resource\n', '{"resourceSpans":7}\n', '{"foo":1}\n', '[]\n']
  await writeFile(at('a.json'), line('a') + bad.join('') + other + '\n' + line('b'))
  const { names, context, stop } = await receive()
  await expect.poll(() => names).toEqual(['a', 'b'])
  await stop()
  expect(context.counts).toMatchObject({ leyden_bad_lines: 4, receiver_accepted_spans: 2 })
  const [{ text, fields }] = context.lines as [(typeof context.lines)[number]]
  expect(text).toBe('warn Lines that are no OTLP/JSON were left out.')
  expect(fields).toMatchObject({ file: at('a.json'), lines: 4, first_at_byte: line('a').length })
})

test('a bad span costs one span', async () => {
  const two = traces('t', [{ id: 'good' }, { id: 'bad' }]) as any
  two.resourceSpans[0].scopeSpans[0].spans[1].spanId = '12'
  await writeFile(at('a.json'), JSON.stringify(two))
  const { names, context, stop } = await receive()
  await expect.poll(() => names).toEqual(['good'])
  await stop()
  expect(context.counts).toEqual({ receiver_accepted_spans: 1, receiver_refused_spans: 1 })
})

test('a restart goes on where it was', async () => {
  await writeFile(at('a.json'), line('a1') + line('a2'))
  const first = await receive()
  await expect.poll(() => first.names).toHaveLength(2)
  await first.stop()
  await appendFile(at('a.json'), line('a3'))
  const second = await receive()
  await expect.poll(() => second.names).toEqual(['a3'])
  await second.stop()
})

test('rotation by a new name: the old file is read to its end, the new one from its beginning', async () => {
  await writeFile(at('a.json'), line('a1'))
  const { names, stop } = await receive()
  await expect.poll(() => names).toEqual(['a1'])
  await appendFile(at('a.json'), line('a2'))
  await rename(at('a.json'), at('a.json.1'))
  await writeFile(at('a.json'), line('b1'))
  await expect.poll(() => names.toSorted()).toEqual(['a1', 'a2', 'b1'])
  await appendFile(at('a.json.1'), line('a3')) // the writer has not opened the new one yet
  await expect.poll(() => names.toSorted()).toEqual(['a1', 'a2', 'a3', 'b1'])
  await stop()
})

test('a file that goes on under another name that matches is not read again', async () => {
  await writeFile(at('a.json'), line('a1'))
  const { names, stop } = await receive()
  await expect.poll(() => names).toEqual(['a1'])
  await rename(at('a.json'), at('a-old.json'))
  await appendFile(at('a-old.json'), line('a2'))
  await expect.poll(() => names).toEqual(['a1', 'a2'])
  await stop()
})

test('rotation by truncation: the file is read from its beginning, also when it is longer than before by then', async () => {
  await writeFile(at('a.json'), line('a1') + line('a2'))
  const { names, stop } = await receive()
  await expect.poll(() => names).toHaveLength(2)
  await truncate(at('a.json'))
  await appendFile(at('a.json'), line('b1') + line('b2') + line('b3'))
  await expect.poll(() => names).toEqual(['a1', 'a2', 'b1', 'b2', 'b3'])
  await stop()
})

test('start_at: end leaves out what is there at the first start', async () => {
  await writeFile(at('a.json'), line('a1'))
  await writeFile(at('c.json'), line('c1'))
  const { names, stop } = await receive({ start_at: 'end', exclude: [at('c*')] })
  await expect.poll(() => readdir(folder)).toContain('progress')
  await appendFile(at('a.json'), line('a2'))
  await writeFile(at('b.json'), line('b1'))
  await expect.poll(() => names.toSorted()).toEqual(['a2', 'b1'])
  await stop()
})

test('what a pipeline refuses for now is sent again; what it refuses for good is counted, and the rest is not lost', async () => {
  await writeFile(at('a.json'), line('a') + line('bad') + line('c'))
  let times = 0
  const { names, context, stop } = await receive({}, (batches) => {
    if (times++ === 0) throw new Refused('busy', 1)
    if (batches.some((batch) => itemName(batch, 0) === 'bad')) throw new Permanent('never')
  })
  await expect.poll(() => names).toEqual(['a', 'c'])
  await stop()
  expect(context.counts).toEqual({ receiver_accepted_spans: 2, receiver_refused_spans: 1 })
  expect(context.problem()).toBeNull()
})

test('a file that cannot be read stops no other, and health says so', async () => {
  await writeFile(at('a.json'), line('a'))
  await writeFile(at('b.json'), line('b'))
  const { names, context, stop } = await receive({}, (batches) => {
    if (batches.some((batch) => itemName(batch, 0) === 'a')) throw new Error('the disk is damaged')
  })
  await expect.poll(() => names).toEqual(['b'])
  await expect.poll(context.problem).toBe('files cannot be read on: the disk is damaged')
  await stop()
})

test('lines longer than a read, and many of them', async () => {
  const long = (n: number) => `${JSON.stringify(traces(`t${n}`, [{ id: 'x', attributes: { text: 'é'.repeat(400_000) } }]))}\n`
  await writeFile(at('a.json'), [1, 2, 3].map(long).join('') + Array.from({ length: 2_000 }, (_, i) => line(`s${i}`)).join(''))
  const ids = new Set<string>()
  const { names, stop } = await receive({}, (batches) => batches.forEach((batch) => ids.add(traceId(batch, 0))))
  await expect.poll(() => names.length).toBe(2_003)
  await stop()
  expect(ids.size).toBe(2_003)
})

test('include must name something', () => {
  expect(problems(otlp_json_file, { include: [] })).toEqual(['include: must name at least one file, e.g. /var/log/otel/*.json'])
})
