import http2 from 'node:http2'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { fromJson } from '../data/otlp_json.ts'
import { scan } from '../data/scan.ts'
import { openStorage } from '../storage/open.ts'
import type { Storage } from '../storage/storage.ts'
import { configure, conforms, testContext } from '../test/conformance.ts'
import { startLeyden, type Leyden } from '../test/leyden.ts'
import { sendGrpc } from '../test/otlp/client.ts'
import { chat, endOf, reward, spanIdOf, tool, traceIdOf, traces, type SpanSpec } from '../test/spans.ts'
import rollouts from './rollouts.ts'

conforms(rollouts)

let leyden: Leyden
beforeAll(async () => {
  leyden = await startLeyden()
})
afterAll(() => leyden.remove())

const send = async (...args: Parameters<typeof traces>) => expect((await leyden.post('traces', traces(...args))).status).toBe(200)
const rolloutRow = async (rollout: string, sql = 'closed_by, complete, status, toUInt32(revision) AS revision, toUInt32(spans) AS spans') =>
  (await leyden.rows(1, `SELECT ${sql} FROM rollouts FINAL WHERE rollout_id = '${rollout}'`))[0]

test('a trace is a rollout of its own, closed when its root has ended and nothing came for root_grace', async () => {
  await send('plain', [chat('p1', { parent: 'p0', at: 10 })])
  await send('plain', [{ id: 'p0', at: 0, for: 100 }])
  expect(await rolloutRow(traceIdOf('plain'))).toEqual({ closed_by: 'root', complete: true, status: 'succeeded', revision: 1, spans: 2 })
})

test('the end event closes at once and says how it ended', async () => {
  // Its root has yet to end, or a slow machine would see it closed by that.
  await send('ended', [chat('e1', { parent: 'e0' })], { 'leyden.rollout.id': 'ended', 'leyden.task.id': 'sums', 'leyden.mode': 'val' })
  await leyden.post('logs', endOf('ended', 'limit'))
  expect(await rolloutRow('ended', 'closed_by, status, task_id, mode')).toEqual({
    closed_by: 'end',
    status: 'limit',
    task_id: 'sums',
    mode: 'val',
  })
})

test('a run of 10,000 spans, 5,000 deep, becomes one rollout whole, its texts as they were sent', async () => {
  const text = (i: number) => `${i}: ${'Zürich, 東京, "quoted".\n'.repeat(20)}`
  const said = (role: string, content: string) => JSON.stringify([{ role, parts: [{ type: 'text', content }] }])
  const spans = Array.from({ length: 10_000 }, (_, i): SpanSpec => {
    const place = { parent: `d${Math.min(i - 1, 4_999)}`, at: i, for: 20_000 - i }
    if (i % 20 > 0 || i < 5_000) return { id: `d${i}`, ...place, parent: i === 0 ? '' : place.parent }
    const messages = { 'gen_ai.input.messages': said('user', text(i)), 'gen_ai.output.messages': said('assistant', text(-i)) }
    return chat(`d${i}`, { ...place, for: 1, attributes: messages })
  })
  // The root, on which the others wait, comes last.
  for (let end = spans.length; end > 0; end -= 5_000) await send('huge', spans.slice(end - 5_000, end))
  expect(await rolloutRow(traceIdOf('huge'), 'toUInt32(spans) AS spans, toUInt32(calls) AS calls')).toEqual({ spans: 10_000, calls: 250 })
  const rows = await leyden.query<{ prompt_messages: string; completion: string }>(
    `SELECT prompt_messages, completion FROM transitions WHERE rollout_id = '${traceIdOf('huge')}' ORDER BY step`,
  )
  const texts = rows.map((row) => JSON.stringify([row.prompt_messages, row.completion]))
  expect(texts.length).toBe(250)
  expect(texts.every((all, i) => [text(5_000 + 20 * i), text(-5_000 - 20 * i)].every((one) => all.includes(inJson(inJson(one)))))).toBe(
    true,
  )
})

/** As a text stands in JSON. */
const inJson = (text: string) => JSON.stringify(text).slice(1, -1)

test('traces that carry one rollout id are one rollout, and each attempt is its own', async () => {
  const ids = (attempt: string) => ({ 'agentlightning.rollout_id': 'many', 'agentlightning.attempt_id': attempt })
  await send('many-1', [chat('m1')], ids('at-1'))
  await send('many-2', [chat('m2', { at: 50 })], ids('at-1'))
  await send('many-3', [chat('m3')], ids('at-2'))
  const rows = await leyden.rows(
    2,
    `SELECT attempt_id, toUInt32(spans) AS spans FROM rollouts FINAL WHERE rollout_id = 'many' ORDER BY attempt_id`,
  )
  expect(rows).toEqual([
    { attempt_id: 'at-1', spans: 2 },
    { attempt_id: 'at-2', spans: 1 },
  ])
})

test('traces that link to each other are one rollout, whichever comes first, and go where one of them says', async () => {
  // None of them is a root, or a slow machine would see it closed by that.
  await send('hop-2', [chat('h2', { parent: 'h', at: 30, links: ['hop-1'] })])
  await send('hop-1', [chat('h1', { parent: 'h', at: 20, links: ['hop-0'] })])
  await send('hop-0', [chat('h0', { parent: 'h', at: 10 })], { 'leyden.rollout.id': 'hops' })
  await send('hop-3', [chat('h3', { parent: 'h', at: 40, links: ['hop-2', 'plain'] })])
  await leyden.post('logs', endOf('hops'))
  expect(await rolloutRow('hops', 'toUInt32(spans) AS spans')).toEqual({ spans: 5 })
  const traces = await leyden.query(`SELECT trace_id FROM rollout_members WHERE rollout_id = 'hops'`)
  expect(traces).toHaveLength(4)
})

test('rollouts that name themselves in one trace keep what is theirs in it, also when more comes for one of them elsewhere', async () => {
  const own = (id: string) => ({ 'leyden.rollout.id': id })
  const run = (id: string) => [10, 30].map((at) => chat(`${id}-${at}`, { parent: 'all', at, answer: `${id} ${at}`, attributes: own(id) }))
  await send('side', [...run('side-1'), ...run('side-2')])
  for (const id of ['side-1', 'side-2']) {
    await leyden.post('logs', endOf(id))
    expect(await rolloutRow(id, 'toUInt32(calls) AS calls')).toEqual({ calls: 2 })
  }
  await send('elsewhere', [reward('side-r', 1, { at: 900 })], own('side-1'))
  const scored = `SELECT completion FROM transitions WHERE rollout_id = 'side-1' AND reward_outcome = 1 ORDER BY step`
  const answers = (await leyden.rows<{ completion: string }>(2, scored)).map(({ completion }) => /side-\d \d+/.exec(completion)?.[0])
  expect(answers).toEqual(['side-1 10', 'side-1 30'])
  expect(await leyden.query(`SELECT 1 FROM transitions WHERE rollout_id = 'side-2'`)).toHaveLength(2)
})

test('a team of AutoGen, whose runtime begins a trace with each message and links it to those before, is one rollout', async () => {
  const linked = (i: number) => [...(i > 0 ? [i - 1] : []), ...(i > 1 && i % 2 === 0 ? [i - 2] : []), ...(i === 11 ? [0] : [])]
  const messages = Array.from({ length: 12 }, (_, i): SpanSpec[] => {
    const place = { trace: `team-${i}`, scope: 'autogen-core' }
    const agent = i % 4 === 1 ? 'writer' : 'critic'
    const links = linked(i).map((earlier) => `team-${earlier}`)
    const process = { ...place, id: `team-${i}`, name: `autogen process ${agent}`, at: 100 * i, for: 90, links }
    if (i % 2 === 0) return [process]
    const attributes = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': agent }
    return [
      process,
      { ...place, id: `team-a${i}`, parent: process.id, name: `invoke_agent ${agent}`, at: 100 * i + 10, for: 70, attributes },
      chat(`team-c${i}`, { trace: place.trace, scope: 'openai', parent: `team-a${i}`, at: 100 * i + 20, answer: `${i}` }),
    ]
  })
  expect(messages.flat().flatMap(({ links = [] }) => links)).toHaveLength(17)
  const made = { id: 'made', trace: 'team-made', name: 'create_agent writer', attributes: { 'gen_ai.operation.name': 'create_agent' } }
  await send('', [made, ...messages.reverse().flat()])
  const ids = `SELECT DISTINCT trace_id FROM rollout_members WHERE rollout_id = '${traceIdOf('team-0')}'`
  expect(await rolloutRow(traceIdOf('team-0'), 'toUInt32(spans) AS spans, toUInt32(calls) AS calls')).toEqual({ spans: 24, calls: 6 })
  expect(await leyden.query(ids)).toHaveLength(12)
  const steps = `SELECT agent, completion FROM transitions WHERE rollout_id = '${traceIdOf('team-0')}' ORDER BY step`
  expect((await leyden.query<{ agent: string }>(steps)).map(({ agent }) => agent)).toEqual([
    'writer',
    'critic',
    'writer',
    'critic',
    'writer',
    'critic',
  ])
  expect(await rolloutRow(traceIdOf('team-made'), 'toUInt32(spans) AS spans, toUInt32(calls) AS calls')).toEqual({ spans: 1, calls: 0 })
})

describe('a response id in two traces', () => {
  const recorded = (trace: string, response: string, scope: string, more: Record<string, string> = {}) => {
    const span = chat(`${trace} ${response}`, { trace, at: 10, scope })
    return { ...span, attributes: { ...span.attributes!, ...more, 'gen_ai.response.id': response } }
  }
  const shape = 'toUInt32(spans) AS spans, toUInt32(calls) AS calls'

  test('makes them one rollout, where two instrumentations recorded the call at once', async () => {
    await send('', [
      ...[recorded('shared-1', 'resp-1', 'client'), recorded('shared-1', 'resp-2', 'client')],
      ...[recorded('shared-2', 'resp-1', 'server'), recorded('shared-3', 'resp-2', 'server')],
    ])
    expect(await rolloutRow(traceIdOf('shared-1'), shape)).toEqual({ spans: 4, calls: 2 })
    expect(await leyden.query(`SELECT trace_id FROM rollout_members WHERE rollout_id = '${traceIdOf('shared-1')}'`)).toHaveLength(3)
  })

  test('says nothing where one instrumentation recorded both: stand-ins for a model give all answers one id', async () => {
    await send('', [recorded('double-1', 'resp-3', 'client'), recorded('double-2', 'resp-3', 'client')])
    for (const name of ['double-1', 'double-2']) expect(await rolloutRow(traceIdOf(name), shape)).toEqual({ spans: 1, calls: 1 })
  })

  test('never joins rollouts that name themselves, and takes a trace without a name to the first that has one', async () => {
    const named = (id: string) => ({ 'leyden.rollout.id': id })
    await send('', [
      recorded('named-1', 'resp-4', 'client'),
      ...[recorded('named-2', 'resp-4', 'server', named('named-a')), recorded('named-3', 'resp-4', 'proxy', named('named-b'))],
    ])
    expect(await rolloutRow('named-a', shape)).toEqual({ spans: 2, calls: 1 })
    expect(await rolloutRow('named-b', shape)).toEqual({ spans: 1, calls: 1 })
  })
})

test('spans without the id go where the rest of their trace goes, whichever came first', async () => {
  await send('mixed', [chat('x1', { parent: 'x0', at: 10 })])
  await send('mixed', [{ id: 'x0', at: 0, attributes: { 'leyden.rollout.id': 'mixed' } }])
  await send('mixed', [chat('x2', { parent: 'x0', at: 20, answer: 'five' })])
  expect(await rolloutRow('mixed', 'toUInt32(spans) AS spans, toUInt32(calls) AS calls')).toEqual({ spans: 3, calls: 2 })
  expect(await leyden.query(`SELECT 1 FROM rollouts WHERE rollout_id = '${traceIdOf('mixed')}'`)).toEqual([])
})

test('a trace that was closed by itself before a span of it named its rollout goes there whole', async () => {
  await send('early', [{ id: 'y0', at: 0, for: 100 }, chat('y1', { parent: 'y0', at: 10 }), reward('y2', 1, { parent: 'y0', at: 60 })])
  expect(await rolloutRow(traceIdOf('early'), 'toUInt32(spans) AS spans')).toEqual({ spans: 3 })
  await send('early', [{ id: 'y3', parent: 'y0', at: 20, attributes: { 'leyden.rollout.id': 'early' } }])
  await send('early', [chat('y4', { parent: 'y0', at: 30, answer: 'five' })])
  expect(await rolloutRow('early', 'toUInt32(spans) AS spans, toUInt32(calls) AS calls, outcome')).toEqual({
    spans: 5,
    calls: 2,
    outcome: 1,
  })
  const made = await leyden.query(`SELECT rollout_id FROM transitions WHERE trace_id = '${traceIdOf('early')}'`)
  expect(made).toEqual([{ rollout_id: 'early' }, { rollout_id: 'early' }])
  expect(await leyden.query("SELECT toUInt32(versions) AS versions FROM rollout_rewards WHERE rollout_id = 'early'")).toEqual([
    { versions: 1 },
  ])
  await send('early', [chat('y5', { parent: 'y0', at: 40, answer: 'six' })])
  expect(await leyden.rows(3, "SELECT 1 FROM transitions WHERE rollout_id = 'early'")).toHaveLength(3)
  expect(await rolloutRow(traceIdOf('early'))).toMatchObject({ spans: 0, revision: 2 })
})

test('a root that comes while a restart still reads the rest of its run gets that rest', async () => {
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const batch = (...spans: SpanSpec[]) => scan('traces', fromJson('traces', traces('resumed', spans))).batch
  await storage.insertSpans([batch(chat('v1', { parent: 'v0', at: 10 }))], [['']])
  let came = false
  const meanwhile: Storage = {
    ...storage,
    async readItems(traceIds) {
      if (!came) {
        came = true
        await connector.consume([batch({ id: 'v0', at: 0, attributes: { 'leyden.rollout.id': 'resumed' } })], 'traces')
      }
      return storage.readItems(traceIds)
    },
  }
  const context = testContext({ id: 'rollouts', kind: 'connector', extensions: { clickhouse_storage: meanwhile } })
  const connector = configure(rollouts, { root_grace: '100ms' }, context)
  await connector.start({})
  const found = await leyden.rows(1, "SELECT 1 FROM rollouts FINAL WHERE rollout_id = 'resumed' AND spans = 2")
  await connector.shutdown!()
  await storage.close()
  expect(found).toHaveLength(1)
})

test('requests that come over gRPC after each other stay apart, although each is read into the memory of the one before', async () => {
  const session = http2.connect(`http://${leyden.grpc}`)
  const names = Array.from({ length: 10 }, (_, i) => `reuse-${i + 10}`)
  for (const name of names) {
    const run = [{ id: `${name}r` }, chat(name, { parent: `${name}r`, answer: `by ${name}`.padEnd(3_000) })]
    const body = fromJson('traces', traces(name, run, { 'leyden.rollout.id': name, 'leyden.task.id': `task of ${name}` }))
    const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
    const headers = { 'content-type': 'application/grpc', te: 'trailers' }
    expect(await sendGrpc(session, { path, headers, body, compressed: false })).toMatchObject({ grpc_code: 0 })
  }
  session.close()
  const found = await leyden.rows<{ rollout_id: string; task_id: string; completion: string }>(
    10,
    "SELECT rollout_id, task_id, completion FROM transitions WHERE rollout_id LIKE 'reuse-%' ORDER BY rollout_id",
  )
  expect(found.map(({ rollout_id, task_id }) => [rollout_id, task_id])).toEqual(names.map((name) => [name, `task of ${name}`]))
  for (const { rollout_id, completion } of found) expect(completion).toContain(`by ${rollout_id} `)
  const stored =
    "SELECT splitByChar('\\0', rollout_hint)[1] AS own, payload, resource FROM spans WHERE rollout_hint LIKE 'reuse-%' AND name LIKE 'chat%'"
  const whole = "position(payload, concat('by ', own)) > 0 AND position(resource, concat('task of ', own)) > 0"
  expect(await leyden.query(`SELECT toUInt32(count()) AS n FROM (${stored}) WHERE ${whole}`)).toEqual([{ n: 10 }])
})

test('late spans make a revision that takes the place of the first', async () => {
  const ids = { 'leyden.rollout.id': 'late' }
  await send('late', [{ id: 'l0', at: 0, for: 100 }, chat('l1', { parent: 'l0', at: 10 })], ids)
  await leyden.rows(1, `SELECT 1 FROM transitions WHERE rollout_id = 'late'`)
  await send('late', [chat('l2', { parent: 'l0', at: 30, answer: 'late' }), reward('l3', 1, { parent: 'l0', at: 60 })], ids)
  const rows = await leyden.rows(
    2,
    `SELECT toUInt32(revision) AS revision, reward_outcome FROM transitions WHERE rollout_id = 'late' ORDER BY step`,
  )
  expect(rows).toEqual(Array(2).fill({ revision: 2, reward_outcome: 1 }))
})

test('a span that is sent again after a lost answer is stored twice and counted once', async () => {
  for (let i = 0; i < 2; i++) await send('twice', [{ id: 't0', at: 0, for: 100 }, chat('t1', { parent: 't0', at: 10 })])
  expect(await rolloutRow(traceIdOf('twice'), 'toUInt32(spans) AS spans')).toEqual({ spans: 2 })
  expect(await leyden.query(`SELECT 1 FROM transitions WHERE trace_id = '${traceIdOf('twice')}'`)).toHaveLength(1)
  expect(await leyden.query(`SELECT 1 FROM spans_unique WHERE span_id = '${spanIdOf('t1')}'`)).toHaveLength(1)
})

test('a span that ClickHouse refuses for good is no part of its rollout', async () => {
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  await storage.client.command({ query: "ALTER TABLE spans ADD CONSTRAINT no_poison CHECK name != 'chat poison'" })
  await send('poisoned', [{ id: 'z0' }, chat('z1', { parent: 'z0' }), chat('z2', { parent: 'z0', model: 'poison' })])
  await storage.client.command({ query: 'ALTER TABLE spans DROP CONSTRAINT no_poison' })
  await storage.close()
  const [row] = await leyden.rows(
    1,
    `SELECT toUInt32(spans) AS spans, calls FROM rollouts FINAL WHERE rollout_id = '${traceIdOf('poisoned')}'`,
  )
  expect(row).toEqual({ spans: 2, calls: 1 })
})

test('a call that ClickHouse refuses for good is a reject of its rollout, and holds up no other', async () => {
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  await storage.client.command({ query: "ALTER TABLE transition_rows ADD CONSTRAINT no_poison CHECK model != 'poison'" })
  const names = ['bitter', 'sweet']
  for (const name of names) {
    const run = [{ id: `${name}0` }, chat(`${name}1`, { parent: `${name}0` })]
    const more = name === 'bitter' ? [chat('bitter2', { parent: 'bitter0', at: 20, model: 'poison' })] : []
    await send(name, [...run, ...more], { 'leyden.rollout.id': name })
  }
  for (const name of names) await leyden.post('logs', endOf(name))
  for (const name of names)
    expect(await rolloutRow(name, 'calls, transitions')).toEqual({ calls: name === 'bitter' ? 2 : 1, transitions: 1 })
  await storage.client.command({ query: 'ALTER TABLE transition_rows DROP CONSTRAINT no_poison' })
  await storage.close()
  expect(await leyden.query("SELECT DISTINCT span_id, reason FROM rejects WHERE rollout_id = 'bitter'")).toEqual([
    { span_id: spanIdOf('bitter2'), reason: 'refused_by_clickhouse' },
  ])
})

test('two connectors with one storage each have their own spans, of the memory that they share', async () => {
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const spans = new Map<string, number>()
  const connectors = ['rollouts/one', 'rollouts/two'].map((id) =>
    configure(rollouts, { root_grace: '100ms' }, testContext({ id, kind: 'connector', extensions: { clickhouse_storage: storage } })),
  )
  const take = async (taken: readonly { rollout_id: string; spans: number }[]) => {
    for (const { rollout_id, spans: count } of taken) spans.set(rollout_id, count)
  }
  for (const connector of connectors) await connector.start({ rollouts: take })
  const consume = (connector: number, run: string, ...ids: string[]) =>
    connectors[connector]!.consume(
      [
        scan(
          'traces',
          fromJson(
            'traces',
            traces(
              run,
              ids.map((id, at) => (at === 0 ? { id, at: 0, for: 9 } : { id, parent: ids[0]! })),
            ),
          ),
        ).batch,
      ],
      'traces',
    )
  await Promise.all([consume(0, 'first', 'x0', 'x1'), consume(1, 'second', 'y0', 'y1', 'y2')])
  await expect.poll(() => [spans.get(traceIdOf('first')), spans.get(traceIdOf('second'))], { timeout: 10_000 }).toEqual([2, 3])
  for (const connector of connectors) await connector.shutdown!()
  await storage.close()
})

test('a rollout that has reached its limit is closed, and what still comes for it is stored and counted', async () => {
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const context = testContext({ id: 'rollouts', kind: 'connector', extensions: { clickhouse_storage: storage } })
  const connector = configure(rollouts, { max_spans: 3, root_grace: '100ms' }, context)
  await connector.start({})
  const consume = (...ids: string[]) =>
    connector.consume(
      [
        scan(
          'traces',
          fromJson(
            'traces',
            traces(
              'full',
              ids.map((id) => ({ id, parent: 'f0' })),
            ),
          ),
        ).batch,
      ],
      'traces',
    )
  await consume('f1', 'f2', 'f3')
  const row = "SELECT closed_by, toUInt32(spans) AS spans FROM rollouts FINAL WHERE rollout_id = '" + traceIdOf('full') + "'"
  expect(await leyden.rows(1, row)).toEqual([{ closed_by: 'max_spans', spans: 3 }])
  await consume('f4', 'f5')
  await expect.poll(() => context.counts['leyden_items_beyond_limits'], { timeout: 30_000 }).toBe(2)
  await connector.shutdown!()
  await storage.close()
  expect(await leyden.query(row)).toEqual([{ closed_by: 'max_spans', spans: 3 }])
  expect(await leyden.query(`SELECT 1 FROM spans WHERE trace_id = '${traceIdOf('full')}'`)).toHaveLength(5)
})

test('a group is credited the moment its last rollout ends', async () => {
  for (const [name, value] of [
    ['g-1', 1],
    ['g-2', 0],
  ] as const) {
    const ids = { 'leyden.rollout.id': name, 'leyden.group.id': 'g', 'leyden.group.size': '2', 'leyden.task.id': 'sums' }
    const spans = [chat(`${name}c`, { at: 10 }), tool(`${name}t`, { at: 20 }), chat(`${name}d`, { at: 30, answer: 'done' })]
    await send(name, [...spans, reward(`${name}r`, value, { at: 50 })], ids)
    await leyden.post('logs', endOf(name))
  }
  const rows = await leyden.rows<{ rollout_id: string; advantage: number }>(
    4,
    `SELECT rollout_id, advantage FROM transitions WHERE group_id = 'g' AND advantage IS NOT NULL ORDER BY rollout_id, step`,
  )
  expect(rows.map(({ advantage }) => Math.sign(advantage))).toEqual([1, 1, -1, -1])
  expect(await leyden.rows(1, `SELECT toUInt32(members) AS members FROM credits WHERE group_id = 'g'`)).toEqual([{ members: 2 }])
})
