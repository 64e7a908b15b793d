// Asks an embedded ClickHouse as any client does: its address and password are in its folder.

import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

interface Server {
  readonly port: number
  readonly password: string
  readonly pid: number
}

const POLL_MS = 100

/** Rows of the answer; none while ClickHouse is away. Throws what it says of a wrong query. */
export async function rowsOf<T>(folder: string, query: string): Promise<T[]> {
  const answer = await ask(folder, `${query} FORMAT JSONEachRow`)
  if (answer === null) return []
  const text = await answer.text()
  if (!answer.ok) throw new Error(text)
  return text.split('\n').flatMap((line) => (line ? [JSON.parse(line) as T] : []))
}

async function ask(folder: string, body: string): Promise<Response | null> {
  try {
    const { port, password } = serverOf(folder)
    const headers = { 'x-clickhouse-user': 'default', 'x-clickhouse-key': password }
    return await fetch(`http://127.0.0.1:${port}/?output_format_json_quote_64bit_integers=0`, { method: 'POST', headers, body })
  } catch {
    return null
  }
}

/** Ends the server, which would wait for other users for a while. The database stays. */
export async function endDatabase(folder: string): Promise<void> {
  const there = await ask(folder, 'SELECT 1')
  // A process of that number that does not know the password is somebody else's.
  if (!there?.ok) return
  const { pid } = serverOf(folder)
  for (let signal: NodeJS.Signals | 0 = 'SIGTERM'; tell(pid, signal); signal = 0) await sleep(POLL_MS)
}

export async function removeDatabase(folder: string): Promise<void> {
  await endDatabase(folder)
  rmSync(folder, { recursive: true, force: true })
}

const serverOf = (folder: string) => JSON.parse(readFileSync(join(folder, 'server.json'), 'utf8')) as Server

/** False once the process is gone. */
function tell(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
