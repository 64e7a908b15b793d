// The ClickHouse that Leyden remembers in. Others reach it as `context.extension('clickhouse_storage')`.

import { ClickHouseError } from '@clickhouse/client'

import { extension } from '../pipeline/component.ts'
import { duration, secret, text } from '../pipeline/schema.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { urlProblem } from '../storage/connection.ts'

export default extension({
  type: 'clickhouse_storage',
  summary: 'Keeps raw spans, rollouts and transitions in ClickHouse: an embedded one, or any server.',
  config: {
    url: text(
      '`embedded` (its data in ./leyden_data), `embedded:<folder>`, or `http(s)://host:port` of a ClickHouse server, in which user, password, database and settings of ClickHouse may stand as well.',
      {
        default: 'embedded',
        aliases: ['endpoint'],
      },
    ),
    database: text('Database of the tables; it is made where it does not exist.', { default: 'default' }),
    username: text('User of the server. An embedded ClickHouse has its own.', { default: 'default' }),
    password: secret('Password of the user.', { default: '' }),
    ttl: duration('How long raw spans are kept, counted from their arrival; 0s: for ever. Transitions are always kept.', {
      default: '720h',
    }),
    settle_timeout: duration(
      'How long after its last rollout a group that is still incomplete gets its advantages from the rollouts it has.',
      {
        default: '30s',
      },
    ),
  },
  check: ({ url }) => urlProblem(url).map((message) => ({ path: ['url'], message })),

  create(options, context) {
    let storage: OpenStorage | undefined
    return {
      async start() {
        storage = await openStorage({ ...options, report: context.health, count: context.count }).catch((error: unknown) => {
          throw advised(error as NodeJS.ErrnoException, context.id)
        })
      },
      async shutdown() {
        await storage?.close()
        storage = undefined
      },
      get api() {
        return storage
      },
    }
  },
})

/** Of a folder that cannot be made or written. */
const FOLDER_ERRORS = ['EACCES', 'EEXIST', 'ENOENT', 'ENOTDIR', 'EPERM', 'EROFS']
/** Those of a server that does not know the user. */
const DENIALS = ['AUTHENTICATION_FAILED', 'REQUIRED_PASSWORD', 'UNKNOWN_USER', 'WRONG_PASSWORD']

/** The message names the folder, say; what would be right is said here. */
function advised(error: NodeJS.ErrnoException, id: string): Error {
  const to = (advice: string) => new Error(`${error.message.replace(/[.\s]+$/, '')}; set extensions::${id}::${advice}`, { cause: error })
  if (FOLDER_ERRORS.includes(error.code ?? '')) return to('url to embedded:<folder>, a folder that can be written')
  if (error instanceof ClickHouseError && DENIALS.includes(error.type ?? '')) return to('username and password, or name both in its url')
  return error
}
