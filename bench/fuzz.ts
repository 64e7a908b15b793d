// npm run fuzz: requests that no client would send, against a running receiver. Exit code 1 when something happened that must not.

import { parseArgs } from 'node:util'

import { fuzz } from './fuzz_receiver.ts'
import { formatTable } from './table.ts'

const HELP = `Sends mutated OTLP requests (traces and logs; protobuf and JSON; plain and gzipped; HTTP and gRPC) to a Leyden of its own, which
stores what it accepts in a ClickHouse of its own. About six minutes for a million.

Usage:
  npm run fuzz -- --runs 1000000 [--seed 1] [--offset 0]
      Run N of a seed is always the same request. To go on where a run ended, or to repeat one: --offset N.
`

const { values } = parseArgs({
  options: {
    runs: { type: 'string' },
    seed: { type: 'string', default: '1' },
    offset: { type: 'string', default: '0' },
    help: { type: 'boolean', default: false },
  },
})

if (values.help || values.runs === undefined) console.log(HELP)
else {
  const [runs, seed, offset] = [Number(values.runs), Number(values.seed), Number(values.offset)]
  const progress = (done: number) =>
    process.stderr.write(`${done} of ${runs}; to go on from here: --seed ${seed} --offset ${offset + done}\n`)
  const { answers, failures, items, megabytes, seconds } = await fuzz({ runs, seed, offset, progress })
  console.log(formatTable(['answer', 'requests'], Object.entries(answers).sort()))
  if (items) console.log(`\n${formatTable(['spans and log records', 'count'], Object.entries(items))}`)
  console.log(
    `\n${Math.round(seconds)} s, ${Math.round(runs / seconds)} requests/s; resident ${megabytes.early} MB after a tenth, ${megabytes.end} MB at the end`,
  )
  for (const failure of failures) console.log(`FAILED (seed ${seed}) ${failure}`)
  process.exitCode = failures.length > 0 ? 1 : 0
}
