// Headers on their way through an upstream model: which of a client's reach the server, and which of an answer reach the client.

/** Of an answer, those that are passed on. */
export type Headers = Readonly<Record<string, string>>

/** And all that begin with x-ratelimit-. */
const ANSWER_HEADERS = new Set([
  'content-type',
  'cache-control',
  'retry-after',
  'retry-after-ms',
  'x-request-id',
  'openai-processing-ms',
  'openai-version',
])
/** About the connection of a client, not about what it asks. */
const OF_CONNECTIONS = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Whether a client's may be passed on; `name` in lower case. */
export const isForwarded = (name: string): boolean => !OF_CONNECTIONS.has(name)

/** `head`: of an answer, as it came. */
export function headersIn(head: string): Headers {
  const headers: Record<string, string> = {}
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    if (!ANSWER_HEADERS.has(name) && !name.startsWith('x-ratelimit-')) continue
    const value = line.slice(colon + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]},${value}`
  }
  return headers
}
