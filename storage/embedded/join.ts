// Leyden's side of the embedded server: joins the one that serves a folder, else starts it, and
// starts it again should it die. The child is detached: other processes may be using it too.

import { spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { makeFolder } from '../make_folder.ts'
import { ALREADY_SERVED, readAddress, type Address } from './address.ts'

const START_MS = 30_000
const ANSWER_MS = 2_000
/** While another process brings its server up, and between attempts to revive one that died. */
const PAUSE_MS = 100
const RESTART_PAUSE_MS = 1_000

export interface EmbeddedServer {
  /** Where it listens now; changes when it had to be started again. */
  readonly port: number
  readonly password: string
  /** Lets go of it. It ends by itself when nobody is left. */
  close(): void
}

export async function joinEmbedded(folder: string): Promise<EmbeddedServer> {
  requireChdb()
  await makeFolder(folder, 0o700)
  let closed = false
  let hold = await joinOrStart(folder)
  watch()

  /** The server answers `/hold` and never ends that answer: it knows that we are here, and we see when it dies. */
  function watch(): void {
    hold.response.on('close', async () => {
      while (!closed) {
        try {
          hold = await joinOrStart(folder)
          watch()
          if (closed) hold.response.destroy()
          return
        } catch {
          await sleep(RESTART_PAUSE_MS)
        }
      }
    })
  }

  return {
    get port() {
      return hold.address.port
    },
    get password() {
      return hold.address.password
    },
    close() {
      closed = true
      hold.response.destroy()
    },
  }
}

interface Hold {
  readonly address: Address
  readonly response: IncomingMessage
}

async function joinOrStart(folder: string): Promise<Hold> {
  const deadline = Date.now() + START_MS
  for (;;) {
    const address = await readAddress(folder)
    const response = address && (await connect(address).catch(() => null))
    if (response) return { address, response }
    if (Date.now() > deadline) throw new Error(`the embedded ClickHouse of ${folder} does not answer: see ${logFile(folder)}`)
    await start(folder)
  }
}

function connect({ port, password }: Address): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { 'X-ClickHouse-Key': password }
    const request = get({ host: '127.0.0.1', port, path: '/hold', headers, agent: false, timeout: ANSWER_MS }, (response) => {
      response.on('error', () => {})
      if (response.statusCode === 200) return resolve(response.resume())
      response.destroy()
      reject(new Error('another program has taken the port'))
    })
    request.on('timeout', () => request.destroy(new Error('no answer')))
    request.on('error', reject)
  })
}

/** Resolves when the child serves, or has found the folder served by another process. */
async function start(folder: string): Promise<void> {
  const log = await open(logFile(folder), 'a', 0o600)
  const child = spawn(process.execPath, [createRequire(import.meta.url).resolve('#embedded-server'), folder], {
    detached: true,
    stdio: ['ignore', log.fd, log.fd, 'ipc'],
    env: { ...process.env, UV_THREADPOOL_SIZE: '8' },
  })
  try {
    await new Promise<void>((resolve, reject) => {
      let problem = `see ${logFile(folder)}`
      child.on('error', reject)
      child.on('message', (message: { problem?: string }) => (message.problem ? (problem = message.problem) : resolve()))
      child.on('exit', (code) => {
        if (code === ALREADY_SERVED) setTimeout(resolve, PAUSE_MS)
        else reject(new Error(`the embedded ClickHouse of ${folder} could not start: ${problem}`))
      })
    })
  } finally {
    if (child.connected) child.disconnect()
    child.unref()
    await log.close()
  }
}

const logFile = (folder: string): string => join(folder, 'server.log')

function requireChdb(): void {
  try {
    createRequire(import.meta.url).resolve('chdb')
  } catch {
    throw new Error('embedded ClickHouse needs the package chdb: `npm install chdb`, or set the url of a ClickHouse server')
  }
}
