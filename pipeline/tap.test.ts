import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

import { expect, onTestFinished, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { spanBatch } from '../test/conformance.ts'
import { traces } from '../test/spans.ts'
import { createTaps } from './tap.ts'

/** Taps behind a real server, and how many items they dropped. */
async function served() {
  let dropped = 0
  const taps = createTaps((items) => void (dropped += items))
  const server = createServer((request, response) => void (taps.handle(request, response) || response.writeHead(418).end()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    taps.close()
    server.close()
    await once(server, 'close')
  })
  const { port } = server.address() as AddressInfo
  const ask = (path: string, headers = {}) =>
    new Promise<IncomingMessage>((resolve, reject) => get({ port, path, headers, agent: false }, resolve).on('error', reject))
  return { taps, ask, dropped: () => dropped }
}

test('whoever taps a component gets what passes from then on, and others get it as well', async () => {
  const { taps, ask } = await served()
  const taken: number[] = []
  const consumer = taps.tapped('otlp', 'traces', async (items) => void taken.push(items.length))
  await consumer([spanBatch([{ id: 'before' }])])
  const streams = [await ask('/tap/otlp'), await ask('/tap/otlp')]
  const lines = streams.map((stream) => createInterface({ input: stream })[Symbol.asyncIterator]())
  await consumer([spanBatch([{ id: 'now' }])])
  for (const own of lines) {
    const { value } = await own.next()
    expect(fromJson('traces', JSON.parse(value as string))).toEqual(fromJson('traces', traces('trace', [{ id: 'now' }])))
  }
  expect(taken).toEqual([1, 1])
  taps.close()
  expect(await lines[0]!.next()).toMatchObject({ done: true })
})

test('one who does not read holds nothing up: what does not fit is counted, and said when reading goes on', async () => {
  const { taps, ask, dropped } = await served()
  const show = taps.shower('otlp', 'traces')
  const stream = await ask('/tap/otlp')
  stream.pause()
  const large = spanBatch([{ id: 'large', attributes: { text: 'x'.repeat(4 << 20) } }])
  for (let i = 0; i < 20; i++) show([large])
  expect(dropped()).toBeGreaterThan(0)
  const before = dropped()
  const lines: string[] = []
  createInterface({ input: stream }).on('line', (line) => lines.push(line))
  await expect.poll(() => lines.length).toBe(20 - before)
  show([spanBatch([{ id: 'after' }])])
  await expect.poll(() => lines.slice(20 - before)).toHaveLength(2)
  expect(JSON.parse(lines.at(-2)!)).toEqual({ 'leyden.tap.dropped': before })
})

test('only this machine may look on, at what there is, and not too many at once', async () => {
  const { taps, ask } = await served()
  taps.shower('clickhouse/staging', 'rollouts')
  const refused = async (path: string, headers = {}) => {
    const answer = await ask(path, headers)
    return [answer.statusCode, (await text(answer)).trim()]
  }
  expect(await refused('/tap/clickhouse%2Fstaging', { host: 'attacker.example' })).toEqual([403, 'only this machine may look on'])
  expect(await refused('/tap/clickhouse/stagin')).toEqual([
    404,
    'no component "clickhouse/stagin" runs, did you mean "clickhouse/staging"?; there are: clickhouse/staging',
  ])
  expect(await refused('/tap/x')).toEqual([404, 'no component "x" runs; there are: clickhouse/staging'])
  expect(await refused('/metrics')).toEqual([418, ''])
  const streams = await Promise.all(Array.from({ length: 4 }, () => ask('/tap/clickhouse/staging')))
  expect(await refused('/tap/clickhouse/staging')).toEqual([503, '4 are looking on already'])
  streams[0]!.destroy()
  await expect.poll(async () => (await ask('/tap/clickhouse/staging')).statusCode).toBe(200)
})
