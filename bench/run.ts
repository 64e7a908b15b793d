// npm run bench -- <air|ingest|assemble|read|grpc|soak>: prints a table of what Leyden does here. It judges nothing and never fails on speed.

import { cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'

import { airToy } from './air.ts'
import { assembleOne } from './assemble.ts'
import { grpcTransports } from './grpc.ts'
import { ingest } from './ingest.ts'
import { readAgain } from './read.ts'
import { soak } from './soak.ts'

const HELP = `Measures Leyden on this machine and prints tables in Markdown.

Usage:
  npm run bench -- air [--seeds 8]
      A toy agent taught by what its tools did: terminal reward only, raw payment, bonus, potential.
  npm run bench -- ingest [--collector <folder>] [--transport http,grpc,grpc-js] [--batch 1,64,512]
                          [--load plain,tokens,recorded,recorded-tokens] [--seconds 5] [--rounds 1]
      Sends agents' spans over OTLP to a Leyden that stores them, to one that also makes transitions of them, and to an
      OpenTelemetry Collector, in turn: spans per CPU-second, per second, memory, and whether all that was acknowledged
      was stored. The folder holds a Collector as \`otelcol-peer\`, and the recorded loads in \`data\`.
  npm run bench -- assemble [--spans 20000,100000]
      Assembles and credits one rollout of so many spans.
  npm run bench -- read [--spans 20000,100000]
      Reads the spans of one rollout: decoding, then reading, each per second of CPU.
  npm run bench -- grpc [--batch 1,64,512] [--seconds 5]
      What the gRPC transport costs by itself, against @grpc/grpc-js.
  npm run bench -- soak [--minutes 10] [--rate 5000] [--transport http,grpc]
      Holds a rate of spans a second while Leyden is killed (-9) every 30 s, and counts what was acknowledged, stored, doubled and lost.

Compare only figures of one run on one machine.
`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    transport: { type: 'string', default: 'http,grpc' },
    batch: { type: 'string', default: '1,64,512' },
    load: { type: 'string', default: 'plain,tokens' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '1' },
    collector: { type: 'string', default: '' },
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '5000' },
    spans: { type: 'string', default: '20000,100000' },
    seeds: { type: 'string', default: '8' },
    help: { type: 'boolean', default: false },
  },
})
const list = (text: string) => text.split(',')
const numbers = (text: string) => list(text).map(Number)

const BENCHES: Readonly<Record<string, () => Promise<void> | void>> = {
  air: () => airToy(Number(values.seeds)),
  ingest: () =>
    ingest({
      transports: list(values.transport),
      batches: numbers(values.batch),
      loads: list(values.load),
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
      collector: values.collector,
    }),
  grpc: () => grpcTransports({ batches: numbers(values.batch), seconds: Number(values.seconds) }),
  assemble: () => assembleOne(numbers(values.spans)),
  soak: () => soak({ transports: list(values.transport), minutes: Number(values.minutes), rate: Number(values.rate) }),
  read: () => readAgain(numbers(values.spans)),
}

const bench = BENCHES[positionals[0] ?? '']
if (!bench || values.help) {
  console.log(HELP)
  process.exitCode = values.help ? 0 : 1
} else {
  const memory = Math.round(totalmem() / 2 ** 30)
  console.log(
    `Node ${process.version}, ${process.platform} ${process.arch}, ${cpus().length} CPUs, ${memory} GB, load ${loadavg()[0]!.toFixed(1)}\n`,
  )
  await bench()
}
