// The load that comes with the built Collector: agents' runs as OpenLLMetry writes them, recorded as requests of one size, each behind
// its length. Runs that the recording cuts off have no root: they never end, and what they would become is not expected.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { attribute, scan, traceId } from '../data/scan.ts'
import { COLUMN, isRoot, STRIDE } from '../data/span_batch.ts'
import type { Load, Request } from './load.ts'

const KEYS = ['gen_ai.request.model'] as const
const ROLLOUT = /ro-[0-9a-f]{16}/g

export async function recordedLoad(folder: string, batch: number, tokens: boolean): Promise<Load> {
  const file = await readFile(join(folder, 'data', `b${batch}${tokens ? '-tok' : ''}.bin`))
  const requests: Request[] = []
  const calls = new Map<string, number>()
  const ended = new Set<string>()
  let spans = 0
  for (let at = 0; at < file.length;) {
    const start = at + 4
    at = start + file.readUInt32LE(at)
    const body = file.subarray(start, at)
    const scanned = scan('traces', body, KEYS).batch
    const ids: number[] = []
    for (let i = 0; i < scanned.count; i++) {
      const { trace_id, span_id, parent_span_id } = COLUMN
      for (const column of [trace_id, span_id, parent_span_id]) ids.push(scanned.columns[i * STRIDE + column]!)
      const trace = traceId(scanned, i)
      if (isRoot(scanned, i)) ended.add(trace)
      if (String(attribute(scanned, i, KEYS[0])).startsWith('policy/')) calls.set(trace, (calls.get(trace) ?? 0) + 1)
    }
    const rollouts = [...body.toString('latin1').matchAll(ROLLOUT)].map(({ index }) => index + 3)
    requests.push({ body, spans: scanned.count, ids: ids.filter((offset) => offset > 0), rollouts })
    spans += scanned.count
  }
  return {
    ...{ requests, spans },
    calls: [...ended].reduce((sum, trace) => sum + (calls.get(trace) ?? 0), 0),
    bytes: file.length - 4 * requests.length,
  }
}
