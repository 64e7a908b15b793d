// Chat completions sent to whatever answers them, and how long it took.

import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Sent {
  /** Milliseconds of each, to the end, or to the first byte of a stream. */
  readonly times: number[]
  readonly failed: number
  readonly seconds: number
}

const CONTENT = 'What the agent knows by now, at some length. '.repeat(20)

export function chatClient(port: number, stream: boolean, model = 'default') {
  const agent = new Agent({ keepAlive: true })
  const body = Buffer.from(JSON.stringify({ model, stream, messages: [{ role: 'user', content: CONTENT }] }))
  const headers = { 'content-type': 'application/json', 'content-length': body.length, ...(stream && { 'user-agent': 'stream' }) }
  const options = { agent, port, host: '127.0.0.1', method: 'POST', path: '/v1/chat/completions', headers }

  /** Milliseconds, or null where it failed. */
  const send = (): Promise<number | null> =>
    new Promise((resolve) => {
      const began = performance.now()
      let first: number | undefined
      const sent = request(options, (reply) => {
        reply
          .on('data', () => (first ??= performance.now() - began))
          .on('end', () => resolve(reply.statusCode === 200 ? (stream ? first! : performance.now() - began) : null))
          .on('error', () => resolve(null))
      })
      sent.on('error', () => resolve(null)).end(body)
    })

  /** So many a second, whether they are answered or not. */
  async function atRate(rate: number, seconds: number): Promise<Sent> {
    const began = performance.now()
    const sent: Promise<number | null>[] = []
    while (sent.length < rate * seconds) {
      const due = Math.min(rate * seconds, ((performance.now() - began) / 1_000) * rate)
      while (sent.length < due) sent.push(send())
      await sleep(1)
    }
    return summary(await Promise.all(sent), began)
  }

  /** So many at a time, each after the other. */
  async function atOnce(clients: number, seconds: number): Promise<Sent> {
    const began = performance.now()
    const times: (number | null)[] = []
    const one = async () => {
      while (performance.now() - began < seconds * 1_000) times.push(await send())
    }
    await Promise.all(Array.from({ length: clients }, one))
    return summary(times, began)
  }

  return { atRate, atOnce, close: () => agent.destroy() }
}

function summary(times: readonly (number | null)[], began: number): Sent {
  const answered = times.filter((time) => time !== null)
  return { times: answered, failed: times.length - answered.length, seconds: (performance.now() - began) / 1_000 }
}

export function quantile(values: readonly number[], q: number): number {
  return values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))] ?? NaN
}
