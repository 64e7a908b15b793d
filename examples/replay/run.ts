// Sends a captured run to Leyden over OTLP/HTTP, as curl would:
//
//   npm run replay -- [file] [http://localhost:4318]
//
// The file holds OTLP/JSON: one document, or one a line as the Collector's file exporter and Leyden's write them. Sending it twice changes
// nothing: a span counts once.

import { readFile } from 'node:fs/promises'

const [file = 'examples/replay/order_agent.json', url = 'http://localhost:4318'] = process.argv.slice(2)
const PATHS: Readonly<Record<string, string>> = { resourceSpans: '/v1/traces', resourceLogs: '/v1/logs' }

for (const document of documents(await readFile(file, 'utf8'))) {
  for (const [member, path] of Object.entries(PATHS)) {
    if (member in document) await post(url + path, { [member]: document[member] })
  }
}

function documents(text: string): Record<string, unknown>[] {
  const lines = text.trim().split('\n')
  return lines[0]!.endsWith('}') ? lines.map((line) => JSON.parse(line)) : [JSON.parse(text)]
}

async function post(address: string, body: object): Promise<void> {
  const response = await fetch(address, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  console.log(`${address}: ${response.status} ${await response.text()}`)
  if (!response.ok) process.exitCode = 1
}
