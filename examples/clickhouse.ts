// Asks an embedded ClickHouse as any client does: its address and password are in its folder.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

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
    const { port, password } = JSON.parse(readFileSync(join(folder, 'server.json'), 'utf8')) as { port: number; password: string }
    const headers = { 'x-clickhouse-user': 'default', 'x-clickhouse-key': password }
    return await fetch(`http://127.0.0.1:${port}/?output_format_json_quote_64bit_integers=0`, { method: 'POST', headers, body })
  } catch {
    return null
  }
}
