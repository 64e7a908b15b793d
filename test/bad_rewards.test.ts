// What bad or odd rewards become, through the front doors: OTLP and POST /v1/scores in, SQL out. docs/concepts.md says the same in words.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { freePort, startLeyden, type Leyden } from './leyden.ts'
import { chat, endOf, reward, traces, type SpanSpec } from './spans.ts'

let leyden: Leyden
let scores: number
let metrics: number
beforeAll(async () => {
  scores = await freePort()
  metrics = await freePort()
  leyden = await startLeyden(`
receivers: {scores: {endpoint: "127.0.0.1:${scores}"}}
connectors: {rollouts: {reward_wait: 100ms, root_grace: 1m}}
processors: {credit_assignment: {method: identical}}
extensions: {clickhouse_storage: {settle_timeout: 300ms}}
service:
  telemetry: {metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: ${metrics}}}}}]}}
  pipelines: {logs: {receivers: [otlp, scores]}}`)
})
afterAll(() => leyden.remove())

const post = (body: object) => fetch(`http://127.0.0.1:${scores}/v1/scores`, { method: 'POST', body: JSON.stringify(body) })
const correct = (rolloutId: string, value: unknown, more: object = {}) => ({ name: 'correct', rolloutId, value, ...more })

/** One call, unless there are others among the spans. */
async function run(rollout: string, spans: readonly SpanSpec[] = [], ids: Record<string, string> = {}): Promise<void> {
  const all = [
    { id: `${rollout}-root`, name: 'agent', at: 0, for: 1_000 },
    chat(`${rollout}-call`, { parent: `${rollout}-root`, at: 10 }),
    ...spans,
  ]
  const sent = await leyden.post('traces', traces(rollout, all, { 'leyden.rollout.id': rollout, ...ids }))
  expect(sent.status).toBe(200)
  await leyden.post('logs', endOf(rollout))
  await leyden.rows(1, `SELECT 1 FROM rollouts FINAL WHERE rollout_id = '${rollout}'`)
}

const outcomesOf = (rollout: string) =>
  leyden.query(`SELECT reward_outcome, return FROM transitions WHERE rollout_id = '${rollout}' ORDER BY step`)
const outcome = (value: number | null) => [{ reward_outcome: value, return: value }]

async function becomes(rollout: string, value: number): Promise<void> {
  await expect.poll(() => outcomesOf(rollout), { timeout: 5_000 }).toEqual(outcome(value))
}

async function counted(name: string, labels = ''): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text()
  return Number(new RegExp(`^${name}_total\\{.*${labels}.*\\} (\\S+)`, 'm').exec(text)?.[1] ?? 0)
}

describe('in a span, what is no usable number counts for nothing, never 0, and is counted:', () => {
  const refused = () => counted('leyden_reading_problems', 'reason="reward_refused"')
  test.each<[string, string | number]>([
    ['NaN', NaN],
    ['Infinity', Infinity],
    ['-Infinity', -Infinity],
    ['text', 'good'],
    ['text that looks like a number', '0.5'],
    ['1e308', 1e308],
  ])('%s', async (what, value) => {
    const rollout = `bad-${what}`
    const before = await refused()
    await run(rollout, [reward(`${what}-r`, 0, { at: 50, attributes: { 'agentlightning.reward.0.value': value } })])
    expect(await outcomesOf(rollout)).toEqual(outcome(null))
    await expect.poll(refused, { timeout: 10_000 }).toBe(before + 1)
  })

  test('null', async () => {
    const before = await refused()
    const document = JSON.stringify(traces('bad-null', [reward('null-r', 7, { at: 50 })], { 'leyden.rollout.id': 'bad-null' }))
    await leyden.post('traces', JSON.parse(document.replace('{"intValue":"7"}', '{}')) as object)
    await run('bad-null')
    expect(await outcomesOf('bad-null')).toEqual(outcome(null))
    await expect.poll(refused, { timeout: 10_000 }).toBe(before + 1)
  })
})

test.each([NaN, Infinity, 'good', null, 1e308])('by /v1/scores %s is refused, and nothing of it is stored', async (value) => {
  expect((await post(correct('scores-refused', value))).status).toBe(400)
  expect(await leyden.query(`SELECT 1 FROM spans WHERE position(payload, 'scores-refused') > 0`)).toEqual([])
})

test('true is 1 and false is 0, in a span and by /v1/scores', async () => {
  for (const [i, value] of [true, false].entries()) {
    await run(`span-${value}`, [reward(`${i}-r`, 0, { at: 50, attributes: { 'agentlightning.reward.0.value': value } })])
    expect(await outcomesOf(`span-${value}`)).toEqual(outcome(value ? 1 : 0))
    await run(`score-${value}`)
    await post(correct(`score-${value}`, value))
    await becomes(`score-${value}`, value ? 1 : 0)
  }
})

test('a reward for a rollout that never comes is counted after reward_wait, and its record stays', async () => {
  expect((await post(correct('never', 1, { id: 'for-nobody' }))).status).toBe(200)
  await expect.poll(() => counted('leyden_rewards_without_rollout'), { timeout: 5_000 }).toBe(1)
  expect(await leyden.query(`SELECT signal FROM spans WHERE position(payload, 'for-nobody') > 0`)).toEqual([{ signal: 'log' }])
  expect(await leyden.query(`SELECT 1 FROM rollouts WHERE rollout_id = 'never'`)).toEqual([])
})

test('of ten rewards with one name for one target the last counts, and all are in the ledger', async () => {
  await run('ten')
  const time = (i: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, i)).toISOString()
  const ten = Array.from({ length: 10 }, (_, i) => correct('ten', i / 10, { id: `ten-${i}`, timestamp: time(i) }))
  expect((await post(ten)).status).toBe(200)
  await becomes('ten', 0.9)
  expect(await leyden.query(`SELECT count() AS n FROM rewards WHERE startsWith(reward_id, 'ten-')`)).toEqual([{ n: 10 }])
})

test('a reward inside a span of a judge counts; what the judge asks its model is never trained', async () => {
  await run('judged', [
    { id: 'judge', name: 'judge', parent: 'judged-root', at: 30, for: 50, attributes: { 'openinference.span.kind': 'EVALUATOR' } },
    chat('judge-call', { parent: 'judge', at: 35 }),
    reward('judge-reward', 0.75, { parent: 'judge', at: 60 }),
  ])
  expect(await outcomesOf('judged')).toEqual(outcome(0.75))
})

test('where clocks differ, sequence ids say that the reward came last; without them it came before the call and is none of the whole', async () => {
  const numbered = (id: string, at: number, sequence: number | null) =>
    reward(id, 1, { at, attributes: sequence === null ? {} : { 'agentlightning.span_sequence_id': sequence } })
  const skewed = (rollout: string, sequence: number | null) => [
    chat(`${rollout}-second`, {
      parent: `${rollout}-root`,
      at: 500,
      attributes: sequence === null ? {} : { 'agentlightning.span_sequence_id': 2 },
    }),
    numbered(`${rollout}-reward`, 400, sequence),
  ]
  const document = async (rollout: string, sequence: number | null) => {
    await leyden.post(
      'traces',
      traces(rollout, [{ id: `${rollout}-root`, name: 'agent', at: 0, for: 1_000 }, ...skewed(rollout, sequence)], {
        'leyden.rollout.id': rollout,
      }),
    )
    await leyden.post('logs', endOf(rollout))
    await leyden.rows(1, `SELECT 1 FROM rollouts FINAL WHERE rollout_id = '${rollout}'`)
    return outcomesOf(rollout)
  }
  expect(await document('skew-known', 3)).toEqual(outcome(1))
  expect(await document('skew-unknown', null)).toEqual(outcome(null))
})

describe('a group', () => {
  const advantages = (group: string) => leyden.query(`SELECT advantage FROM transitions WHERE group_id = '${group}' ORDER BY rollout_id`)
  async function scored(group: string, values: readonly (number | null)[]): Promise<void> {
    for (const [i, value] of values.entries()) {
      const ids = { 'leyden.group.id': group, 'leyden.group.size': String(values.length) }
      await run(`${group}-${i}`, value === null ? [] : [reward(`${group}-r${i}`, value, { at: 50 })], ids)
    }
    await leyden.rows(1, `SELECT 1 FROM credits WHERE group_id = '${group}'`)
  }

  test('of one gives 0, never the raw reward', async () => {
    await scored('single', [1])
    expect(await advantages('single')).toEqual([{ advantage: 0 }])
  })

  test('with equal rewards gives 0', async () => {
    await scored('equal', [0.3, 0.3])
    expect(await advantages('equal')).toEqual([{ advantage: 0 }, { advantage: 0 }])
  })

  test('with one member that nobody scored is credited without it after settle_timeout', async () => {
    await scored('partly', [1, 0, null])
    expect(await advantages('partly')).toEqual([{ advantage: 0.5 }, { advantage: -0.5 }, { advantage: null }])
  })
})

test('of two scores for one target at once both are in the ledger, and one counts', async () => {
  await run('twice')
  const answers = await Promise.all([0.25, 0.5].map((value) => post(correct('twice', value, { id: `twice-${value}` }))))
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  await leyden.rows(2, `SELECT 1 FROM rewards WHERE startsWith(reward_id, 'twice-')`)
  await expect
    .poll(async () => [outcome(0.25), outcome(0.5)].map((one) => JSON.stringify(one)).includes(JSON.stringify(await outcomesOf('twice'))), {
      timeout: 10_000,
    })
    .toBe(true)
})
