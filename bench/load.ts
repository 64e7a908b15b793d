// A deterministic load of agents' runs, as OTLP requests: eight runs at a time, interleaved as a worker's exporter sends them. A quarter
// of the spans are a policy's calls; the rest are judges, tools (a quarter fail), workflow steps, HTTP requests and rewards. About 2.5 KB
// a span. The same arguments give the same bytes.

import { fileURLToPath } from 'node:url'

import protobuf from 'protobufjs'

export interface Load {
  readonly requests: readonly Request[]
  readonly spans: number
  readonly calls: number
  readonly bytes: number
}

export interface Request {
  readonly body: Buffer
  readonly spans: number
  /** Where trace and span ids stand, and where rollout ids (as text) do. */
  readonly ids: readonly number[]
  readonly rollouts: readonly number[]
}

interface Span {
  scope: string
  traceId: Buffer
  spanId: Buffer
  parentSpanId: Buffer
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: KeyValue[]
  events?: object[]
  status: object
}
type Scalar = string | number | boolean | readonly number[]
interface KeyValue {
  key: string
  value: object
}

const RUNS = 8
const INTERNAL = 1
const CLIENT = 3
const SCOPES: Readonly<Record<string, string>> = { agent: 'order_agent', model: 'genai.instrumentation', http: 'http.instrumentation' }
const WORDS =
  'select count order customer total where date between group sum price product region return error table schema value query Zürich 東京 the a of in'.split(
    ' ',
  )

/** One run of at least `spans` spans, in requests of 512. */
export function makeRun(spans: number): Buffer[] {
  const type = requestType()
  const sent = [...run(randomFrom(12345), spanIds(), { spans })]
  const requests: Buffer[] = []
  for (let i = 0; i < sent.length; i += 512) requests.push(encode(type, sent.slice(i, i + 512)))
  return requests
}

/** At least `spans` spans: every run that begins also ends, so that a pass over the load leaves nothing open. */
export function makeLoad(batch: number, spans: number, tokens = false): Load {
  const random = randomFrom(12345)
  const type = requestType()
  const sent = interleave(spans, random, tokens)
  const requests: Request[] = []
  for (let i = 0; i < sent.length; i += batch) {
    const taken = sent.slice(i, i + batch)
    const body = encode(type, taken)
    requests.push({ body, spans: taken.length, ids: occurrences(body, MARK), rollouts: occurrences(body, Buffer.from(ROLLOUT_MARK)) })
  }
  const calls = sent.filter((span) => span.name === POLICY_CALL).length
  return { requests, spans: sent.length, calls, bytes: requests.reduce((sum, { body }) => sum + body.length, 0) }
}

function interleave(spans: number, random: Random, tokens: boolean): Span[] {
  const sent: Span[] = []
  const spanId = spanIds()
  const begun = () => run(random, spanId, { tokens })
  const runs = Array.from({ length: RUNS }, begun)
  while (runs.length > 0) {
    const i = random.integer(0, runs.length - 1)
    const next = runs[i]!.next()
    if (!next.done) sent.push(next.value)
    else if (sent.length < spans) runs[i] = begun()
    else runs.splice(i, 1)
  }
  return sent
}

/** The request's body with ids of its own for every pass over the load, so that nothing is sent twice. */
export function freshBody({ body, ids, rollouts }: Request, pass: number): Buffer {
  const copy = Buffer.from(body)
  for (const offset of ids) copy.writeUInt32BE(pass, offset)
  for (const offset of rollouts) copy.write(pass.toString(16).padStart(8, '0'), offset)
  return copy
}

function occurrences(body: Buffer, wanted: Buffer): number[] {
  const found: number[] = []
  for (let at = body.indexOf(wanted); at >= 0; at = body.indexOf(wanted, at + wanted.length)) found.push(at)
  return found
}

/** Bytes that no text holds: each id begins with them until a pass is written there. */
const MARK = Buffer.from([0xff, 0xfe, 0xfd, 0xfc])
const ROLLOUT_MARK = 'rollout!'
const POLICY = 'policy/coder'
const POLICY_CALL = `chat ${POLICY}`
const VOCABULARY = 151_000

function spanIds(): () => Buffer {
  let minted = 1 // an id of zeros is none
  return () => Buffer.concat([MARK, Buffer.from((minted++).toString(16).padStart(8, '0'), 'hex')])
}

/** The spans of one run, each when it ends: two to seven turns, or as many as make `spans`; with `tokens`, a policy's calls carry token ids. */
function* run(random: Random, spanId: () => Buffer, { spans = 0, tokens = false } = {}): Generator<Span> {
  const traceId = Buffer.concat([MARK, random.bytes(12)])
  const rollout = `${ROLLOUT_MARK}-${random.bytes(8).toString('hex')}`
  const question = random.text(300, 900)
  let now = 1_764_400_000_000_000_000n

  /** A span that has just begun; what takes time on its own moves the clock. */
  function begin(scope: string, name: string, kind: number, parentSpanId: Buffer, attributes: Record<string, Scalar>, time = 0): Span {
    const startTimeUnixNano = String(now)
    now += BigInt(time)
    const times = { startTimeUnixNano, endTimeUnixNano: String(now) }
    return { scope, traceId, spanId: spanId(), parentSpanId, name, kind, ...times, attributes: keyValues(attributes), status: {} }
  }

  function end(span: Span): Span {
    now += 1_000n
    return { ...span, endTimeUnixNano: String(now) }
  }

  function call(parent: Buffer, model: string, agent: string): Span {
    const prompt = random.text(800, 6200)
    const completion = random.text(200, 1800)
    const attributes = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'vllm',
      'gen_ai.agent.name': agent,
      'gen_ai.request.model': model,
      'gen_ai.request.temperature': 0.7,
      'gen_ai.request.top_p': 0.95,
      'gen_ai.request.max_tokens': 2048,
      'gen_ai.response.model': model,
      'gen_ai.response.id': `chatcmpl-${random.bytes(12).toString('hex')}`,
      'gen_ai.system_instructions': JSON.stringify([{ type: 'text', content: question.slice(0, 600) }]),
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: prompt }] }]),
      'gen_ai.output.messages': JSON.stringify([
        { role: 'assistant', parts: [{ type: 'text', content: completion }], finish_reason: 'stop' },
      ]),
      'gen_ai.usage.input_tokens': prompt.length >> 2,
      'gen_ai.usage.output_tokens': completion.length >> 2,
      'server.address': '127.0.0.1',
      'server.port': 8000,
    }
    const ids = tokens && model === POLICY ? { prompt_token_ids: tokenIds(prompt), response_token_ids: tokenIds(completion) } : {}
    return begin('model', `chat ${model}`, CLIENT, parent, { ...attributes, ...ids }, random.integer(50_000_000, 3_000_000_000))
  }

  /** About as many as a tokenizer makes of the text. */
  function tokenIds(text: string): number[] {
    return Array.from({ length: text.length >> 2 }, () => random.integer(0, VOCABULARY - 1))
  }

  function http({ spanId: parent, startTimeUnixNano, endTimeUnixNano }: Span): Span {
    const attributes = {
      'http.request.method': 'POST',
      'url.full': 'http://127.0.0.1:8000/v1/chat/completions',
      'http.response.status_code': 200,
    }
    return { ...begin('http', 'POST', CLIENT, parent, attributes), startTimeUnixNano, endTimeUnixNano }
  }

  function tool(parent: Buffer): Span {
    const name = random.pick(['execute_sql', 'search', 'calculator'])
    const attributes = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.id': `call_${random.bytes(12).toString('hex')}`,
      'gen_ai.tool.call.arguments': JSON.stringify({ query: random.text(60, 300) }),
      'gen_ai.tool.call.result': JSON.stringify({ output: random.text(60, 700) }),
    }
    const done = begin('agent', `execute_tool ${name}`, INTERNAL, parent, attributes, random.integer(1_000_000, 900_000_000))
    if (random.integer(0, 3) > 0) return done
    const exception = {
      'exception.type': 'OperationalError',
      'exception.message': 'no such column',
      'exception.stacktrace': random.text(900, 900),
    }
    const events = [{ timeUnixNano: done.endTimeUnixNano, name: 'exception', attributes: keyValues(exception) }]
    return { ...done, status: { code: 2, message: 'OperationalError: no such column' }, events }
  }

  function* turn(parent: Buffer): Generator<Span> {
    const texts = { 'step.input': random.text(200, 700), 'step.output': random.text(80, 500) }
    const step = begin('agent', 'step write_query', INTERNAL, parent, texts)
    const policy = call(step.spanId, POLICY, 'writer')
    if (random.integer(0, 1) === 0) yield http(policy)
    yield policy
    if (random.integer(0, 3) === 0) yield call(step.spanId, 'judge-large', 'judge')
    if (random.integer(0, 2) > 0) yield tool(step.spanId)
    if (random.integer(0, 2) === 0) yield begin('agent', 'render', INTERNAL, step.spanId, { 'step.input': random.text(60, 300) }, 1_000)
    yield end(step)
  }

  const identity = { 'leyden.rollout.id': rollout, 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'writer' }
  const root = begin('agent', 'invoke_agent writer', INTERNAL, Buffer.alloc(0), identity)
  let sent = 0
  for (let turns = random.integer(2, 7); turns > 0 || sent < spans; turns--) {
    for (const span of turn(root.spanId)) {
      sent++
      yield span
    }
  }
  yield begin('agent', 'agentlightning.annotation', INTERNAL, root.spanId, {
    'agentlightning.reward.0.name': 'correct',
    'agentlightning.reward.0.value': random.integer(0, 1000) / 1000,
  })
  yield end(root)
}

function keyValues(attributes: Readonly<Record<string, Scalar>>): KeyValue[] {
  return Object.entries(attributes).map(([key, value]) => {
    if (typeof value === 'string') return { key, value: { stringValue: value } }
    if (typeof value === 'boolean') return { key, value: { boolValue: value } }
    if (typeof value === 'object') return { key, value: { arrayValue: { values: value.map((intValue) => ({ intValue })) } } }
    return { key, value: Number.isInteger(value) ? { intValue: value } : { doubleValue: value } }
  })
}

function encode(type: protobuf.Type, spans: readonly Span[]): Buffer {
  return Buffer.from(type.encode(type.fromObject(toOtlp(spans))).finish())
}

function toOtlp(spans: readonly Span[]): object {
  const resource = keyValues({
    'service.name': 'agent-runner',
    'service.version': '1.4.2',
    'telemetry.sdk.language': 'python',
    'host.name': 'worker-1',
  })
  const scopeSpans = Object.entries(SCOPES).map(([key, name]) => ({
    scope: { name, version: '1.0.0' },
    spans: spans.filter(({ scope }) => scope === key),
  }))
  return { resourceSpans: [{ resource: { attributes: resource }, scopeSpans: scopeSpans.filter(({ spans }) => spans.length > 0) }] }
}

interface Random {
  integer(min: number, max: number): number
  pick<T>(from: readonly T[]): T
  bytes(length: number): Buffer
  /** Words, `min` to `max` characters of them. */
  text(min: number, max: number): string
}

/** A linear congruential generator (Numerical Recipes' constants): good enough to vary text, and the same everywhere. */
function randomFrom(seed: number): Random {
  const next = () => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
  const integer = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  const pick = <T>(from: readonly T[]) => from[integer(0, from.length - 1)]!
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => integer(0, 255)))
  const text = (min: number, max: number) => {
    const length = integer(min, max)
    let written = ''
    while (written.length < length) written += `${pick(WORDS)} `
    return written.slice(0, length)
  }
  return { integer, pick, bytes, text }
}

export function requestType(): protobuf.Type {
  const proto = fileURLToPath(new URL('../../proto/', import.meta.url))
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) => proto + target
  return root
    .loadSync('opentelemetry/proto/collector/trace/v1/trace_service.proto')
    .lookupType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')
}
