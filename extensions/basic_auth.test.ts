import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { hash } from '@node-rs/bcrypt'
import { expect, test, vi } from 'vitest'

import { Unauthenticated, type Authenticator } from '../pipeline/auth.ts'
import { Refused } from '../pipeline/component.ts'
import { conforms, configure, problems, testContext } from '../test/conformance.ts'
import basic_auth from './basic_auth.ts'

const CHEAP = { cost: 4, version: '2y' } as const
const ann = `ann:${await hash('one:with:colons', CHEAP)}`
const bob = `bob:${await hash('two', CHEAP)}`

conforms(basic_auth, { htpasswd: { inline: ann } })

async function start(options: object) {
  const context = testContext()
  const extension = configure(basic_auth, options, context)
  await extension.start?.()
  async function ask(user: string, password: string): Promise<string> {
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    return answer(() => (extension.api as Authenticator).authenticate((name) => (name === 'authorization' ? authorization : undefined)))
  }
  return { ...extension, context, ask }
}

async function answer(authenticate: () => Promise<void> | undefined): Promise<string> {
  try {
    await authenticate()
    return 'passes'
  } catch (error) {
    if (!(error instanceof Unauthenticated)) throw error
    expect(error.challenge).toMatch(/^Basic realm=/)
    return error.message
  }
}

test('the right password of a user passes, again and again; a wrong one and a stranger do not', async () => {
  const { ask, shutdown } = await start({ htpasswd: { inline: `# agents\n${ann}\n\n${bob}\n` } })
  const wrong = 'the user or the password is wrong'
  expect(await ask('ann', 'one:with:colons')).toBe('passes')
  expect(await ask('ann', 'one:with:colons')).toBe('passes')
  expect(await ask('ann', 'two')).toBe(wrong)
  expect(await ask('bob', 'two')).toBe('passes')
  expect(await ask('eve', 'two')).toBe(wrong)
  expect(await ask('bob', '')).toBe(wrong)
  await shutdown?.()
})

test.each([undefined, 'Basic', 'Basic !!!', 'Bearer dHdv', `Basic ${Buffer.from('no colon').toString('base64')}`])(
  'the header %j is refused',
  async (header) => {
    const { api, shutdown } = await start({ htpasswd: { inline: ann } })
    expect(await answer(() => (api as Authenticator).authenticate(() => header))).toContain('needs a user and a password')
    await shutdown?.()
  },
)

test('a flood of guesses is refused instead of queued, and who has passed before still passes', async () => {
  const { ask, shutdown } = await start({ htpasswd: { inline: bob } })
  await ask('bob', 'two')
  const guesses = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => ask('bob', `guess ${i}`)))
  const refused = guesses.filter((guess) => guess.status === 'rejected' && guess.reason instanceof Refused)
  expect(refused).toHaveLength(42)
  expect(await ask('bob', 'two')).toBe('passes')
  await shutdown?.()
})

test('a file of users is read again when it changes; users written in place win over it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-users-'))
  const file = join(folder, 'htpasswd')
  await writeFile(file, `${bob}\nann:${await hash('from the file', CHEAP)}\n`)
  const { ask, context, shutdown } = await start({ htpasswd: { file, inline: ann } })
  expect(await ask('ann', 'one:with:colons')).toBe('passes')
  expect(await ask('bob', 'two')).toBe('passes')

  await writeFile(file, '')
  await vi.waitFor(() => expect(context.lines.at(-1)?.text).toContain('Users were read anew'), 10_000)
  expect(await ask('bob', 'two')).toBe('the user or the password is wrong')

  await writeFile(file, 'bob:two')
  await vi.waitFor(() => expect(context.lines.at(-1)?.fields?.error).toMatch(/^line 1 must be user:hash/), 10_000)
  expect(await ask('ann', 'one:with:colons')).toBe('passes')
  await shutdown?.()
  await rm(folder, { recursive: true })
})

test.each([
  ['plain text', 'ann:hunter2'],
  ['MD5', 'ann:$apr1$x$y'],
  ['SHA-1', 'ann:{SHA}x'],
  ['no hash', 'ann'],
])('%s is refused, without being shown', (_what, inline) => {
  const [problem] = problems(basic_auth, { htpasswd: { inline: `${bob}\n${inline}` } })
  expect(problem).toMatch(/^htpasswd::inline: line 2 must be user:hash with a hash of bcrypt/)
  expect(problem).not.toContain('hunter2')
})

test('some user is needed', async () => {
  expect(problems(basic_auth, {})).toEqual(['htpasswd: needs file, inline or both'])
  await expect(start({ htpasswd: { inline: '# nobody' } })).rejects.toThrow('there is no user in htpasswd')
})
