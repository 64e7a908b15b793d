import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test, vi } from 'vitest'

import { Unauthenticated, type Authenticator } from '../pipeline/auth.ts'
import { conforms, configure, problems, testContext } from '../test/conformance.ts'
import bearer_token_auth from './bearer_token_auth.ts'

conforms(bearer_token_auth, { token: 's3cret' })

/** `passes`, or why not. */
function ask(api: unknown, headers: Record<string, string>): string {
  try {
    void (api as Authenticator).authenticate((name) => headers[name])
    return 'passes'
  } catch (error) {
    expect(error).toBeInstanceOf(Unauthenticated)
    expect((error as Unauthenticated).challenge).toBe('Bearer')
    return (error as Error).message
  }
}

test.each([
  ['the token', { authorization: 'Bearer s3cret' }, 'passes'],
  ['the scheme in other letters', { authorization: 'bearer s3cret' }, 'passes'],
  ['another token', { authorization: 'Bearer s3crets' }, 'the token is not known'],
  ['the token alone', { authorization: 's3cret' }, 'the token is not known'],
  ['another scheme', { authorization: 'Basic s3cret' }, 'the token is not known'],
  ['an empty token', { authorization: 'Bearer ' }, 'the token is not known'],
  ['nothing', {}, 'needs a token in the header "Authorization"'],
])('a request with %s', (_what, headers, answer) => {
  expect(ask(configure(bearer_token_auth, { token: 's3cret' }).api, headers)).toBe(answer)
})

test('several tokens are each good, in a header of any name, and without a scheme', () => {
  const { api } = configure(bearer_token_auth, { tokens: ['one', 'two'], header: 'X-Api-Key', scheme: '' })
  const answers = ['one', 'two', 'three'].map((token) => {
    try {
      void (api as Authenticator).authenticate((name) => (name === 'x-api-key' ? token : undefined))
      return true
    } catch {
      return false
    }
  })
  expect(answers).toEqual([true, true, false])
})

test('a file of tokens is read again when it changes, and one that is gone leaves the old ones valid', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-tokens-'))
  const filename = join(folder, 'tokens')
  await writeFile(filename, 'old\n\nolder\n')
  const context = testContext()
  const extension = configure(bearer_token_auth, { filename }, context)
  await extension.start?.()
  const passes = (token: string) => ask(extension.api, { authorization: `Bearer ${token}` }) === 'passes'
  expect(['old', 'older', 'new'].map(passes)).toEqual([true, true, false])

  await writeFile(filename, 'new token of another length')
  await vi.waitFor(() => expect(passes('new token of another length')).toBe(true), 10_000)
  expect(passes('old')).toBe(false)

  await rm(filename)
  await vi.waitFor(() => expect(context.lines.at(-1)?.text).toContain('the old ones stay valid'), 10_000)
  expect(passes('new token of another length')).toBe(true)
  expect(JSON.stringify(context.lines)).not.toContain('new token')
  await extension.shutdown?.()
  await rm(folder, { recursive: true })
})

test('a file without tokens does not let Leyden start', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-tokens-'))
  const filename = join(folder, 'tokens')
  await writeFile(filename, '\n')
  await expect(configure(bearer_token_auth, { filename }).start?.()).rejects.toThrow(`there is no token in ${filename}`)
  await rm(folder, { recursive: true })
})

test('exactly one source of tokens is wanted', () => {
  expect(problems(bearer_token_auth, {})).toEqual([': needs one of token, tokens and filename'])
  expect(problems(bearer_token_auth, { token: 'a', filename: 'b' })).toEqual([': takes only one of token, tokens and filename'])
  expect(problems(bearer_token_auth, { token: '' })).toEqual(['token: must not be empty'])
  expect(problems(bearer_token_auth, { tokens: ['a', ''] })).toEqual(['tokens::1: must not be empty'])
})
