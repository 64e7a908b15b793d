// Looks on at what leaves a component of a running Leyden.

import { get, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

import { DROPPED } from '../pipeline/tap.ts'
import type { Io } from './command.ts'
import { command, UsageError } from './flags.ts'

const HELP = `Shows what leaves a component of a Leyden that runs on this machine, while it does: a line of OTLP/JSON for each request of spans or log records, a
line of JSON for each rollout. It holds nothing up: what cannot be read in time is left out, and said.

Usage:
  leyden tap [flags] <component id>

Flags:
  --url <url>        where the running Leyden serves its metrics, http://127.0.0.1:8888 unless told
  --count <n>        stops after so many lines

Examples:
  leyden tap policy_calls --count 1
  leyden tap otlp > seen.jsonl    # which leyden explain and the receiver otlp_json_file read
`

export const tap = command({
  help: HELP,
  flags: { url: { type: 'string', default: 'http://127.0.0.1:8888' }, count: { type: 'string' } },
  words: true,
  async run({ url, count }, io, words) {
    const [id] = words
    if (id === undefined || words.length > 1)
      throw new UsageError('name one component, by its id in the configuration: leyden tap policy_calls')
    if (count !== undefined && !/^[1-9]\d*$/.test(count)) throw new UsageError(`--count must be a number of lines (got "${count}")`)
    if (!/^http:\/\/[^/]/.test(url)) throw new UsageError(`--url must be http://host:port (got "${url}")`)
    const response = await ask(new URL(`/tap/${encodeURIComponent(id)}`, url))
    if (response.statusCode !== 200) throw new UsageError((await text(response)).trim() || `${url} answers ${response.statusCode}`)
    try {
      await print(response, Number(count ?? Infinity), io)
      return 0
    } catch (error) {
      io.stderr(`Error: the connection broke (${(error as Error).message})\n`)
      return 1
    }
  },
})

function ask(url: URL): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, resolve).on('error', ({ message, code }: NodeJS.ErrnoException) =>
      reject(new UsageError(`no Leyden answers at ${url.origin} (${code ?? message}): does one run, with service::telemetry::metrics on?`)),
    )
  })
}

async function print(response: IncomingMessage, count: number, io: Io): Promise<void> {
  let left = count
  for await (const line of createInterface({ input: response, crlfDelay: Infinity })) {
    if (line.startsWith(`{"${DROPPED}"`)) {
      io.stderr(`left out, since they were not read in time: ${(JSON.parse(line) as Record<string, number>)[DROPPED]}\n`)
      continue
    }
    io.stdout(`${line}\n`)
    if (--left === 0) break
  }
  response.destroy()
}
