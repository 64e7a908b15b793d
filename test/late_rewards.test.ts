// Rewards that come by themselves, before, during and long after the run, through the front doors: OTLP and POST /v1/scores.

import { afterAll, beforeAll, expect, test } from 'vitest'

import { freePort, startLeyden, type Leyden } from './leyden.ts'
import { chat, endOf, reward, spanIdOf, traceIdOf, traces, type SpanSpec } from './spans.ts'

let leyden: Leyden
let port: number
let config: string
beforeAll(async () => {
  port = await freePort()
  config = `
receivers: {scores: {endpoint: "127.0.0.1:${port}"}}
connectors: {rollouts: {join_keys: [order_id], reward_wait: 1h}}
processors: {credit_assignment: {method: identical}}
service: {pipelines: {logs: {receivers: [otlp, scores]}}}`
  leyden = await startLeyden(config)
})
afterAll(() => leyden.remove())

async function score(body: object): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/scores`, { method: 'POST', body: JSON.stringify({ name: 'correct', ...body }) })
  expect(answer.status).toBe(200)
}

async function run(rollout: string, spans: readonly SpanSpec[], more: Record<string, string> = {}): Promise<void> {
  const ids = { 'leyden.rollout.id': rollout, ...more }
  await leyden.post('traces', traces(rollout, [{ id: `${rollout}-root`, name: 'agent', at: 0, for: 1_000 }, ...spans], ids))
  await leyden.post('logs', endOf(rollout, 'succeeded', more['leyden.attempt.id']))
  await leyden.rows(1, `SELECT 1 FROM rollouts FINAL WHERE rollout_id = '${rollout}'`)
}

const call = (rollout: string, over: Partial<SpanSpec> = {}) => chat(`${rollout}-call`, { parent: `${rollout}-root`, at: 10, ...over })

const outcomeOf = async (rollout: string, value: number) => {
  const sql = `SELECT outcome, reward_outcome, return FROM rollouts FINAL INNER JOIN transitions USING rollout_id WHERE rollout_id = '${rollout}' AND outcome = ${value}`
  expect(await leyden.rows(1, sql)).toEqual([{ outcome: value, reward_outcome: value, return: value }])
}

test.each<[string, object, Record<string, string>]>([
  ['its rollout', { rolloutId: 'late-1' }, {}],
  ['its rollout, whatever the attempt', { rolloutId: 'late-2' }, { 'leyden.attempt.id': 'at-1' }],
  ['its attempt', { rolloutId: 'late-3', attemptId: 'at-2' }, { 'leyden.attempt.id': 'at-2' }],
  ['its trace', { traceId: traceIdOf('late-4') }, {}],
  ['its root span', { traceId: traceIdOf('late-5'), observationId: spanIdOf('late-5-root') }, {}],
  ['a span without its trace', { spanId: spanIdOf('late-6-root') }, {}],
  ['the response of its call', { responseId: 'response-late-7' }, {}],
  ['its session', { sessionId: 'session-late-8' }, { 'session.id': 'session-late-8' }],
  ['the order that came of it', { attributes: { order_id: 42 } }, { order_id: '42' }],
])('a score long after the run finds it by %s', async (_what, target, more) => {
  const rollout = `late-${++number}`
  await run(rollout, [call(rollout, { attributes: { 'gen_ai.response.id': `response-${rollout}` } })], more)
  await score({ ...target, value: 0.5 })
  await outcomeOf(rollout, 0.5)
})
let number = 0

test('what is about the whole or one of its calls does not have the run read again, and is covered', async () => {
  await run('stays', [call('stays')])
  await score({ rolloutId: 'stays', value: 0.5 })
  await outcomeOf('stays', 0.5)
  await score({ traceId: traceIdOf('stays'), observationId: spanIdOf('stays-call'), value: 0.25, id: 'of-the-call' })
  await outcomeOf('stays', 0.25)
  expect(await leyden.query(`SELECT revision, spans FROM rollouts FINAL WHERE rollout_id = 'stays'`)).toEqual([{ revision: 1, spans: 5 }])
  const ledger = `SELECT name, value FROM rollout_rewards WHERE rollout_id = 'stays' ORDER BY value`
  expect(await leyden.query(ledger)).toEqual([
    { name: 'correct', value: 0.25 },
    { name: 'correct', value: 0.5 },
  ])
})

test('a score that comes before its run waits for it', async () => {
  await score({ rolloutId: 'before', value: 0.25 })
  await score({ responseId: 'response-before-2', value: 0.75 })
  await run('before', [call('before')])
  await run('before-2', [call('before-2', { attributes: { 'gen_ai.response.id': 'response-before-2' } })])
  await outcomeOf('before', 0.25)
  await outcomeOf('before-2', 0.75)
})

test('a score during the run is there when it ends', async () => {
  const ids = { 'leyden.rollout.id': 'during' }
  await leyden.post('traces', traces('during', [call('during')], ids))
  await score({ rolloutId: 'during', value: 1 })
  await run('during', [])
  await outcomeOf('during', 1)
})

test('a reward span in a trace of its own finds the call that its link names', async () => {
  await run('linked', [call('linked', { attributes: { 'gen_ai.response.id': 'response-linked' } })])
  const link = { 'agentlightning.link.0.key_match': 'gen_ai.response.id', 'agentlightning.link.0.value_match': 'response-linked' }
  await leyden.post('traces', traces('elsewhere', [reward('linked-reward', 1, { attributes: link })]))
  await outcomeOf('linked', 1)
  expect(await leyden.query(`SELECT 1 FROM rollouts WHERE rollout_id = '${traceIdOf('elsewhere')}'`)).toEqual([])
})

test('an evaluation outside of any trace finds the call whose response it names, and one that names nothing is counted', async () => {
  await run('outside', [call('outside', { attributes: { 'gen_ai.response.id': 'response-outside' } })])
  const evaluation = (more: Record<string, string>) => ({
    eventName: 'gen_ai.evaluation.result',
    timeUnixNano: '1764000001000000000',
    attributes: [
      { key: 'gen_ai.evaluation.name', value: { stringValue: 'correct' } },
      { key: 'gen_ai.evaluation.score.value', value: { doubleValue: 0.75 } },
      ...Object.entries(more).map(([key, stringValue]) => ({ key, value: { stringValue } })),
    ],
  })
  const logRecords = [evaluation({}), evaluation({ 'gen_ai.response.id': 'response-outside' })]
  expect((await leyden.post('logs', { resourceLogs: [{ resource: {}, scopeLogs: [{ scope: {}, logRecords }] }] })).status).toBe(200)
  await outcomeOf('outside', 0.75)
  expect(await leyden.query(`SELECT count() AS n FROM rollouts WHERE rollout_id NOT IN (SELECT rollout_id FROM transitions)`)).toEqual([
    { n: 0 },
  ])
})

test('a score that waits is found again after a restart', async () => {
  await score({ rolloutId: 'restarted', value: 1 })
  const { folder } = leyden
  await leyden.stop()
  leyden = await startLeyden(config, folder)
  await run('restarted', [call('restarted')])
  await outcomeOf('restarted', 1)
})

test('a score of one of two rollouts credits the group of both, the next version', async () => {
  const group = { 'leyden.group.id': 'pair', 'leyden.group.size': '2' }
  await run('pair-1', [call('pair-1')], group)
  await run('pair-2', [call('pair-2')], group)
  const advantages = () => leyden.query(`SELECT advantage, credit_version FROM transitions WHERE group_id = 'pair' ORDER BY rollout_id`)
  await score({ rolloutId: 'pair-1', value: 1 })
  await score({ rolloutId: 'pair-2', value: 0 })
  await expect.poll(advantages, { timeout: 5_000 }).toEqual([
    { advantage: 0.5, credit_version: 1 },
    { advantage: -0.5, credit_version: 1 },
  ])
  await score({ rolloutId: 'pair-2', value: 0.5, id: 'again' })
  await expect.poll(advantages, { timeout: 5_000 }).toEqual([
    { advantage: 0.25, credit_version: 2 },
    { advantage: -0.25, credit_version: 2 },
  ])
})
