// Server-sent events, both ways: https://html.spec.whatwg.org/multipage/server-sent-events.html

import type { HttpResponse } from '../pipeline/http_exchange.ts'
import { REQUEST_ID } from './engines/engine.ts'
import { isJson, type Json } from './fields.ts'

export const EVENT_STREAM = 'text/event-stream'

const HEADERS = {
  'content-type': `${EVENT_STREAM}; charset=utf-8`,
  'cache-control': 'no-cache',
  // nginx would hold events back.
  'x-accel-buffering': 'no',
}

/** One event; the first one begins the stream. */
export function sendEvent(response: HttpResponse, request_id: string, data: object, name?: string): void {
  if (!response.isBegun()) response.begin(200, { [REQUEST_ID]: request_id, ...HEADERS })
  response.write(Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`))
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
