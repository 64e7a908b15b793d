// npm run bench -- <agent|air|ingest|assemble|read|replay|grpc|endpoint|decode|kill|soak|train|hugging_face>: prints a table of what Leyden does here. It judges nothing and never fails on speed.

import { cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'

import { agentCalls } from './agent.ts'
import { airToy } from './air.ts'
import { assembleOne } from './assemble.ts'
import { creditLate } from './credit.ts'
import { decode } from './decode.ts'
import { endpoint } from './endpoint.ts'
import { grpcTransports } from './grpc.ts'
import { huggingFace } from './hugging_face.ts'
import { ingest } from './ingest.ts'
import { killDemo } from './kill.ts'
import { promptsOnDisk } from './prompts.ts'
import { readAgain } from './read.ts'
import { replayAndDoctor } from './replay.ts'
import { restart } from './restart.ts'
import { soak } from './soak.ts'
import { steady } from './steady.ts'
import { train } from './train.ts'

const HELP = `Measures Leyden on this machine and prints tables in Markdown.

Usage:
  npm run bench -- agent
      What leyden/agent adds to a call of the model.
  npm run bench -- air [--seeds 8]
      A toy agent taught by what its tools did: terminal reward only, raw payment, bonus, potential.
  npm run bench -- ingest [--collector <folder>] [--transport http,grpc,grpc-js] [--batch 1,64,512]
                          [--load plain,tokens,recorded,recorded-tokens] [--what storing,whole,collector] [--seconds 5] [--rounds 1]
                          [--in-flight 32]
      Sends agents' spans over OTLP to a Leyden that stores them, to one that also makes transitions of them, and to an
      OpenTelemetry Collector, in turn: spans per CPU-second, per second, memory, and whether all that was acknowledged
      was stored. The folder holds a Collector as \`otelcol-peer\`, and the recorded loads in \`data\`.
  npm run bench -- credit [--rollouts 20000] [--late 1000] [--single 25]
      Late scores on a store of so many rollouts, together and one by one, and reading a training batch afterwards; what one would do
      without Leyden beside it. In full: --rollouts 200000 --late 10000 --single 300.
  npm run bench -- prompts [--runs 800] [--turns 20]
      What the prompts of runs of many turns take on disk, and whether they are rebuilt as they were sent.
  npm run bench -- assemble [--spans 20000,100000]
      Assembles and credits one rollout of so many spans.
  npm run bench -- read [--spans 20000,100000]
      Reads the spans of one rollout: decoding, then reading, each per second of CPU.
  npm run bench -- replay [--spans 40000]
      Replays an otel_traces table into a Leyden that makes transitions of it, then runs doctor over the last 1,000 rollouts.
  npm run bench -- grpc [--batch 1,64,512] [--seconds 5]
      What the gRPC transport costs by itself, against @grpc/grpc-js.
  npm run bench -- endpoint [--seconds 5]
      What the OpenAI endpoint adds to a model server, against a bare proxy; and its own decoder under many agents, with new versions.
  npm run bench -- decode [--models 50k,300k,4m] [--agents 1,8,20,32] [--seconds 5]
      The decoder under so many agents at once, each of several turns: tokens per second, by size of the policy and by kernels.
  npm run bench -- kill [--seconds 5] [--rounds 1]
      The demo, while a worker, the trainer, the runner, the pipeline and ClickHouse are killed (-9), one every so many seconds.
  npm run bench -- steady [--rate 5000] [--open 1000] [--seconds 5] [--transport http,grpc] [--collector <folder>]
      A steady rate of spans a second with so many rollouts open: how long a request waits for its acknowledgement, and the memory resident.
  npm run bench -- restart [--open 1000]
      Kills Leyden (-9) with so many rollouts open, and starts it again: how long until it serves, and until all are open again.
  npm run bench -- soak [--minutes 10] [--rate 5000] [--transport http,grpc]
      Holds a rate of spans a second while Leyden is killed (-9) every 30 s, and counts what was acknowledged, stored, doubled and lost.
  npm run bench -- train [--models 50k,4m,135m] [--kernels blas,decomp] [--threads 1,2] [--steps 5] [--python python3]
      Training steps of random policies on rollouts of five turns: tokens per second, memory, and what 200 steps leave behind. Beside
      it PyTorch with the same model, rows and threads, where Python has torch and transformers. 135m is a step of LoRA of 1,024 tokens.
  npm run bench -- hugging_face [--python python3] <folder> ...
      Whether transformers and PEFT load these folders of policies, and by how much their logits differ from Leyden's.

Compare only figures of one run on one machine.
`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    transport: { type: 'string', default: 'http,grpc' },
    batch: { type: 'string', default: '1,64,512' },
    load: { type: 'string', default: 'plain,tokens' },
    what: { type: 'string', default: 'storing,whole,collector' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '1' },
    'in-flight': { type: 'string', default: '0' },
    collector: { type: 'string', default: '' },
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '5000' },
    open: { type: 'string', default: '1000' },
    rollouts: { type: 'string', default: '20000' },
    late: { type: 'string', default: '1000' },
    single: { type: 'string', default: '25' },
    runs: { type: 'string', default: '800' },
    turns: { type: 'string', default: '20' },
    spans: { type: 'string', default: '20000,100000' },
    seeds: { type: 'string', default: '8' },
    models: { type: 'string', default: '' },
    kernels: { type: 'string', default: 'blas,decomp' },
    steps: { type: 'string', default: '5' },
    threads: { type: 'string', default: '1' },
    agents: { type: 'string', default: '1,8,20,32' },
    python: { type: 'string', default: 'python3' },
    help: { type: 'boolean', default: false },
  },
})
const list = (text: string) => text.split(',')
const numbers = (text: string) => list(text).map(Number)

const BENCHES: Readonly<Record<string, () => Promise<void> | void>> = {
  agent: agentCalls,
  air: () => airToy(Number(values.seeds)),
  ingest: () =>
    ingest({
      transports: list(values.transport),
      batches: numbers(values.batch),
      loads: list(values.load),
      what: list(values.what),
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
      inFlight: Number(values['in-flight']),
      collector: values.collector,
    }),
  grpc: () => grpcTransports({ batches: numbers(values.batch), seconds: Number(values.seconds) }),
  credit: () => creditLate({ rollouts: Number(values.rollouts), late: Number(values.late), single: Number(values.single) }),
  prompts: () => promptsOnDisk(Number(values.runs), Number(values.turns)),
  assemble: () => assembleOne(numbers(values.spans)),
  endpoint: () => endpoint(Number(values.seconds)),
  decode: () => decode({ models: list(values.models || '50k,300k,4m'), agents: numbers(values.agents), seconds: Number(values.seconds) }),
  kill: () => killDemo(Number(values.seconds), Number(values.rounds)),
  restart: () => restart(Number(values.open)),
  soak: () => soak({ transports: list(values.transport), minutes: Number(values.minutes), rate: Number(values.rate) }),
  steady: () =>
    steady({
      transports: list(values.transport),
      rate: Number(values.rate),
      open: Number(values.open),
      seconds: Number(values.seconds),
      collector: values.collector,
    }),
  read: () => readAgain(numbers(values.spans)),
  replay: () => replayAndDoctor(numbers(values.spans)[0]!),
  hugging_face: () => huggingFace(positionals.slice(1), values.python),
  train: () =>
    train({
      models: list(values.models || '50k,4m'),
      kernels: list(values.kernels),
      threads: numbers(values.threads),
      steps: Number(values.steps),
      python: values.python,
    }),
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
  try {
    await bench()
  } catch (error) {
    console.error(`Error: ${(error as Error).message}`)
    process.exitCode = 1
  }
}
