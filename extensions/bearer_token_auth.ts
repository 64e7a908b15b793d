// Lets those send who know a token (RFC 6750). The file with tokens is read again when it changes.

import { readFile } from 'node:fs/promises'

import { Unauthenticated, type Authenticator } from '../pipeline/auth.ts'
import { extension } from '../pipeline/component.ts'
import { onFileChange } from '../pipeline/file_change.ts'
import { list, secret, text } from '../pipeline/schema.ts'
import { sameSecret } from '../pipeline/secrets.ts'

export default extension({
  type: 'bearer_token_auth',
  summary: 'Lets a request pass that carries a known token in a header.',
  aliases: ['bearertokenauth'],
  role: 'authenticator',
  config: {
    scheme: text('Word before the token; empty: the header is the token alone.', { default: 'Bearer' }),
    header: text('Header that carries the token.', { default: 'Authorization' }),
    token: secret('The token.', { default: null }),
    tokens: list(secret('One token.'), 'Several tokens, each of which will do.', { default: [] }),
    filename: text('File of tokens, one a line, each of which will do. A change is obeyed within seconds.', {
      default: null,
      example: '/etc/leyden/tokens',
    }),
  },

  check({ token, tokens, filename }) {
    const ways = [token !== null, tokens.length > 0, filename !== null].filter(Boolean).length
    if (ways === 0) return [{ message: 'needs one of token, tokens and filename' }]
    if (ways > 1) return [{ message: 'takes only one of token, tokens and filename' }]
    if (token === '') return [{ path: ['token'], message: 'must not be empty' }]
    const empty = tokens.indexOf('')
    return empty < 0 ? [] : [{ path: ['tokens', String(empty)], message: 'must not be empty' }]
  },

  create({ scheme, header, token, tokens, filename }, { log }) {
    let known: readonly string[] = token === null ? tokens : [token]
    let forget = () => {}
    const challenge = scheme || 'Bearer'
    const name = header.toLowerCase()
    const prefix = scheme && `${scheme.toLowerCase()} `

    async function readTokens(path: string): Promise<readonly string[]> {
      const lines = (await readFile(path, 'utf8')).split('\n').map((line) => line.trim())
      const found = lines.filter((line) => line !== '')
      if (found.length === 0) throw new Error(`there is no token in ${path}`)
      return found
    }

    async function reload(path: string): Promise<void> {
      try {
        known = await readTokens(path)
        log.info('Tokens were read anew', { filename: path })
      } catch (error) {
        log.error('Tokens cannot be read anew; the old ones stay valid', { error: (error as Error).message })
      }
    }

    const api: Authenticator = {
      authenticate(read) {
        const given = read(name)
        if (given === undefined) throw new Unauthenticated(`needs a token in the header "${header}"`, challenge)
        const offered = given.slice(prefix.length).trim()
        const matches = known.filter((one) => sameSecret(offered, one)) // all of them: time must not tell which one it was
        if (!given.toLowerCase().startsWith(prefix) || matches.length === 0) throw new Unauthenticated('the token is not known', challenge)
        return undefined
      },
    }

    return {
      api,
      async start() {
        if (filename === null) return
        known = await readTokens(filename)
        forget = onFileChange(filename, () => void reload(filename))
      },
      async shutdown() {
        forget()
      },
    }
  },
})
