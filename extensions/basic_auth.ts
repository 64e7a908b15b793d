// Lets those send who know a user's password (RFC 7617). The users are those of an htpasswd file, which is read again when it changes.
// Checking a password is slow on purpose: it is done on the thread pool, few at a time, and once only for what was right.

import { readFile } from 'node:fs/promises'
import { timingSafeEqual } from 'node:crypto'

import { Unauthenticated, type Authenticator } from '../pipeline/auth.ts'
import { extension, Refused } from '../pipeline/component.ts'
import { onFileChange } from '../pipeline/file_change.ts'
import { group, secret, text } from '../pipeline/schema.ts'
import { digest } from '../pipeline/secrets.ts'

export default extension({
  type: 'basic_auth',
  summary: 'Lets a request pass that carries a user name and password of an htpasswd file.',
  aliases: ['basicauth'],
  role: 'authenticator',
  config: {
    htpasswd: group(
      {
        file: text('File of `user:hash` lines, as `htpasswd -B` writes them. A change is obeyed within seconds.', { default: null }),
        inline: secret('The same lines, written here; they win over those of the file.', { default: null }),
      },
      'Who may send. Hashes must be bcrypt.',
      { example: { file: '/etc/leyden/htpasswd' } },
    ),
  },

  check({ htpasswd: { file, inline } }) {
    if (file === null && inline === null) return [{ path: ['htpasswd'], message: 'needs file, inline or both' }]
    try {
      parse(inline ?? '')
      return []
    } catch (error) {
      return [{ path: ['htpasswd', 'inline'], message: (error as Error).message }]
    }
  },

  create({ htpasswd: { file, inline } }, { log }) {
    let users: Users = new Map()
    let verified = new Map<string, Buffer>()
    let forget = () => {}
    let verify: Verify
    const checks = new Map<string, Promise<boolean>>()

    async function readUsers(): Promise<void> {
      const found = new Map([...parse(file === null ? '' : await readFile(file, 'utf8')), ...parse(inline ?? '')])
      if (found.size === 0) throw new Error('there is no user in htpasswd')
      users = found
      verified = new Map()
    }

    async function reload(): Promise<void> {
      try {
        await readUsers()
        log.info('Users were read anew', { file })
      } catch (error) {
        log.error('Users cannot be read anew; the old ones stay valid', { error: (error as Error).message })
      }
    }

    async function check(user: string, password: string, key: Buffer): Promise<void> {
      const hash = users.get(user)
      const id = `${key.toString('base64')} ${hash}`
      let running = checks.get(id)
      if (!running) {
        if (checks.size >= MAX_CHECKS) throw new Refused('too many passwords are being checked')
        // A user that does not exist costs as much time, so that time does not tell who exists.
        running = verify(password, hash ?? NOBODY).finally(() => checks.delete(id))
        checks.set(id, running)
      }
      if (!(await running) || hash === undefined || users.get(user) !== hash) throw refusal('the user or the password is wrong')
      verified.set(user, key)
    }

    const api: Authenticator = {
      authenticate(read) {
        const credentials = parseBasic(read('authorization'))
        if (!credentials) throw refusal('needs a user and a password in the header "Authorization"')
        const [user, password] = credentials
        const key = digest(`${user}:${password}`)
        const before = verified.get(user)
        return before && timingSafeEqual(before, key) ? undefined : check(user, password, key)
      },
    }

    return {
      api,
      async start() {
        verify = await loadBcrypt()
        await readUsers()
        if (file !== null) forget = onFileChange(file, () => void reload())
      },
      async shutdown() {
        forget()
      },
    }
  },
})

/** Hashes by user. */
type Users = ReadonlyMap<string, string>
type Verify = (password: string, hash: string) => Promise<boolean>

/** At the usual cost each takes 50 ms of one of the pool's four threads, which unpack requests as well. */
const MAX_CHECKS = 8

/** The hash of a random password, of the usual cost. */
const NOBODY = '$2b$10$upDY9svcVCU38/pjdHjFLO03lzHU1cYzj6qb4rLyHhrblRqvsnX86'

const BCRYPT = /^\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}$/

const refusal = (message: string) => new Unauthenticated(message, 'Basic realm="leyden", charset="UTF-8"')

/** Throws for a line that is none; its hash is not shown. */
function parse(htpasswd: string): Users {
  const users = new Map<string, string>()
  for (const [i, line] of htpasswd.split('\n').entries()) {
    const [user = '', hash = ''] = line.trim().split(/:(.*)/s)
    if (user === '' || user.startsWith('#')) continue
    if (!BCRYPT.test(hash))
      throw new Error(
        `line ${i + 1} must be user:hash with a hash of bcrypt, as \`htpasswd -B\` makes it; MD5, SHA and plain text are not safe`,
      )
    users.set(user, hash)
  }
  return users
}

function parseBasic(header = ''): [user: string, password: string] | undefined {
  const encoded = /^basic +([A-Za-z0-9+/=]+) *$/i.exec(header)?.[1]
  if (encoded === undefined) return undefined
  const [user, password] = Buffer.from(encoded, 'base64').toString().split(/:(.*)/s)
  return user && password !== undefined ? [user, password] : undefined
}

async function loadBcrypt(): Promise<Verify> {
  try {
    return (await import('@node-rs/bcrypt')).verify
  } catch (error) {
    throw new Error('needs the package @node-rs/bcrypt, which is not installed: npm install @node-rs/bcrypt', { cause: error })
  }
}
