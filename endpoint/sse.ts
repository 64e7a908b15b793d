// Server-sent events, both ways: https://html.spec.whatwg.org/multipage/server-sent-events.html

import type { ServerResponse } from 'node:http'

import { isJson, type Json } from './fields.ts'

export const EVENT_STREAM = 'text/event-stream'

const HEADERS = {
  'content-type': `${EVENT_STREAM}; charset=utf-8`,
  'cache-control': 'no-cache',
  // nginx would hold events back.
  'x-accel-buffering': 'no',
}

/** One event; the first one opens the stream. */
export function sendEvent(response: ServerResponse, data: object, name?: string): void {
  if (!response.headersSent) {
    response.writeHead(200, HEADERS)
    response.socket?.setNoDelay(true)
  }
  response.write(`${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`)
}

/** The JSON objects in a whole stream; what is none (`[DONE]`, comments, a last event that was cut off) is passed over. */
export function eventsIn(stream: string): Json[] {
  return stream.split(/\r?\n\r?\n/).flatMap((event) => {
    const data = event
      .split(/\r?\n/)
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(line[5] === ' ' ? 6 : 5))
      .join('\n')
    try {
      const value: unknown = data.startsWith('{') ? JSON.parse(data) : undefined
      return isJson(value) ? [value] : []
    } catch {
      return []
    }
  })
}
