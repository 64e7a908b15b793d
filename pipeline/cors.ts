// Lets pages of other origins send from a browser (the Fetch standard's CORS protocol). Without it browsers refuse to.

import type { IncomingMessage, ServerResponse } from 'node:http'

import { group, list, number, text, type Config } from './schema.ts'

const fields = {
  allowed_origins: list(text('An origin, with `*` for any part of it.'), 'Pages of which origins may send, e.g. `https://*.example.com`.', {
    default: [],
  }),
  allowed_headers: list(text('Name of a header; `*`: any.'), 'Headers that they may send, beside Content-Type.', { default: [] }),
  max_age: number('For how many seconds a browser may remember the answer.', { default: 0, min: 0, integer: true }),
}

export const cors = group(fields, 'Which pages may send from a browser; without it none.', { default: null })

/** @returns whether the request was a browser's question whether it may send, and is answered */
export type AllowOrigin = (request: IncomingMessage, response: ServerResponse) => boolean

export function createCors({ allowed_origins, allowed_headers, max_age }: Config<typeof fields>): AllowOrigin {
  const anyOrigin = allowed_origins.includes('*')
  const patterns = allowed_origins.map(originPattern)

  return (request, response) => {
    const { origin, 'access-control-request-method': method, 'access-control-request-headers': asked = '' } = request.headers
    response.setHeader('vary', 'origin')
    const named = origin !== undefined && patterns.some((pattern) => pattern.test(origin))
    if (anyOrigin) response.setHeader('access-control-allow-origin', '*')
    else if (named) {
      response.setHeader('access-control-allow-origin', origin)
      response.setHeader('access-control-allow-credentials', 'true') // the SDK sends its last spans by a beacon, which asks for it
    }
    if (request.method !== 'OPTIONS' || method === undefined) return false
    if (anyOrigin || named) {
      response.setHeader('access-control-allow-methods', 'POST')
      response.setHeader(
        'access-control-allow-headers',
        allowed_headers.includes('*') ? asked : ['content-type', ...allowed_headers].join(', '),
      )
      if (max_age > 0) response.setHeader('access-control-max-age', max_age)
    }
    response.writeHead(204).end()
    return true
  }
}

function originPattern(origin: string): RegExp {
  const escaped = origin.split('*').map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'))
  return new RegExp(`^${escaped.join('[^/]*')}$`, 'i')
}
