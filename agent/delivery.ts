// Tells Leyden how an attempt went: log records over OTLP/HTTP, which close its rollout at once. Told until it is taken.

import { setTimeout as sleep } from 'node:timers/promises'

import { END_EVENT } from '../data/notes.ts'
import { scoreRecord } from '../data/score_body.ts'
import type { Order, Result } from './order.ts'

export type Outcome = Pick<Result, 'status' | 'reward'>

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 5_000
const REQUEST_TIMEOUT_MS = 10_000

/** @param url of an OTLP/HTTP receiver, without a path @param patience milliseconds until it rejects */
export function delivery(url: string, patience: number, headers: Readonly<Record<string, string>> = {}) {
  return async function deliver(order: Order, outcome: Outcome): Promise<void> {
    const body = JSON.stringify(document(order, outcome))
    const until = Date.now() + patience
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      const problem = await post(`${url}/v1/logs`, body, headers)
      if (problem === null) return
      if (Date.now() + wait > until) throw new Error(`${url}/v1/logs does not take how rollouts ended: ${problem}`)
      await sleep(wait)
    }
  }
}

async function post(url: string, body: string, headers: Readonly<Record<string, string>>): Promise<string | null> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    const text = await response.text()
    return response.ok ? null : `${response.status} ${text}`
  } catch (error) {
    return String((error as Error).cause ?? error)
  }
}

/** The reward first: it is there when the end closes the rollout. */
function document(order: Order, { status, reward }: Outcome): object {
  const { rollout_id, attempt_id } = order
  const [, traceId, spanId] = order.traceparent.split('-')
  const now = Date.now()
  const score = { name: 'reward', value: reward, rolloutId: rollout_id, attemptId: attempt_id, traceId }
  const end = {
    timeUnixNano: `${now}000000`,
    traceId,
    spanId,
    eventName: END_EVENT,
    attributes: attributes({ 'leyden.rollout.status': status }),
  }
  const resource = {
    'service.name': 'leyden-rollouts',
    'leyden.rollout.id': rollout_id,
    'leyden.attempt.id': attempt_id,
    'leyden.task.id': order.task_id,
    'leyden.group.id': order.group_id,
    'leyden.group.size': String(order.group_size),
    'leyden.mode': order.mode,
  }
  const logRecords = reward === undefined ? [end] : [scoreRecord(score, now).record, end]
  return {
    resourceLogs: [{ resource: { attributes: attributes(resource) }, scopeLogs: [{ scope: { name: 'leyden.rollouts' }, logRecords }] }],
  }
}

const attributes = (record: Readonly<Record<string, string>>) =>
  Object.entries(record).map(([key, value]) => ({ key, value: { stringValue: value } }))
