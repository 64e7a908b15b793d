// OTLP/JSON documents for tests, in the fewest words: a run of an agent is a list of spans.

type Value = string | number | boolean

export interface SpanSpec {
  id: string
  parent?: string
  name?: string
  /** Milliseconds after the run's start. */
  at?: number
  for?: number
  /** Never ended. */
  unfinished?: boolean
  status?: 0 | 1 | 2
  trace?: string
  /** Name of the instrumentation. */
  scope?: string
  attributes?: Record<string, Value>
  /** Names of traces. */
  links?: readonly string[]
  events?: readonly (readonly [name: string, attributes: Record<string, Value>])[]
}

const START = 1_764_000_000_000n

const anyValue = (value: Value) =>
  typeof value === 'string'
    ? { stringValue: value }
    : typeof value === 'boolean'
      ? { boolValue: value }
      : Number.isSafeInteger(value)
        ? { intValue: String(value) }
        : { doubleValue: Number.isFinite(value) ? value : String(value) }

const attributes = (record: Record<string, Value> = {}) => Object.entries(record).map(([key, value]) => ({ key, value: anyValue(value) }))

const hex = (text: string, digits: number) => Buffer.from(text).toString('hex').padStart(digits, '0').slice(-digits)

export const traceIdOf = (name: string): string => hex(name, 32)
export const spanIdOf = (name: string): string => hex(name, 16)

/** An ExportTraceServiceRequest as OTLP/JSON. `trace` names the trace of spans that do not name their own. */
export function traces(trace: string, spans: readonly SpanSpec[], resource: Record<string, Value> = {}): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributes({ 'service.name': 'test-agent', ...resource }) },
        scopeSpans: [...new Set(spans.map(scopeOf))].map((name) => ({
          scope: { name },
          spans: spans.flatMap((span, i) => (scopeOf(span) === name ? [written(span, i, trace)] : [])),
        })),
      },
    ],
  }
}

const scopeOf = ({ scope = 'test' }: SpanSpec): string => scope

function written(span: SpanSpec, i: number, trace: string): object {
  const start = (START + BigInt(span.at ?? i * 10)) * 1_000_000n
  return {
    traceId: traceIdOf(span.trace ?? trace),
    spanId: spanIdOf(span.id),
    ...(span.parent ? { parentSpanId: spanIdOf(span.parent) } : {}),
    name: span.name ?? span.id,
    kind: 1,
    startTimeUnixNano: String(start),
    ...(span.unfinished ? {} : { endTimeUnixNano: String(start + BigInt(span.for ?? 5) * 1_000_000n) }),
    attributes: attributes(span.attributes),
    ...(span.events
      ? { events: span.events.map(([name, values]) => ({ name, timeUnixNano: String(start), attributes: attributes(values) })) }
      : {}),
    ...(span.links ? { links: span.links.map((name) => ({ traceId: traceIdOf(name), spanId: spanIdOf(name) })) } : {}),
    status: span.status ? { code: span.status } : {},
  }
}

/** The log record that ends a rollout. */
export function endOf(rollout: string, status = 'succeeded', attempt = ''): object {
  const ids = { 'leyden.rollout.id': rollout, ...(attempt ? { 'leyden.attempt.id': attempt } : {}) }
  return {
    resourceLogs: [
      {
        resource: { attributes: attributes(ids) },
        scopeLogs: [
          {
            scope: { name: 'test' },
            logRecords: [
              {
                timeUnixNano: String(START * 1_000_000n),
                eventName: 'leyden.rollout.end',
                attributes: attributes({ 'leyden.rollout.status': status }),
              },
            ],
          },
        ],
      },
    ],
  }
}

/** A model call in the GenAI form. */
export const chat = (id: string, over: Partial<SpanSpec> & { prompt?: string; answer?: string; model?: string } = {}): SpanSpec => {
  const { prompt = 'What is 2 + 2?', answer = '4', model = 'policy', ...span } = over
  return {
    id,
    name: `chat ${model}`,
    ...span,
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': model,
      'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: prompt }] }]),
      'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: answer }], finish_reason: 'stop' }]),
      ...span.attributes,
    },
  }
}

/** A tool execution in the GenAI form. */
export const tool = (id: string, over: Partial<SpanSpec> & { tool?: string; result?: string } = {}): SpanSpec => {
  const { tool = 'search', result = 'found', ...span } = over
  return {
    id,
    name: `execute_tool ${tool}`,
    ...span,
    attributes: {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': tool,
      ...(span.status === 2 ? { 'error.type': 'ValueError' } : { 'gen_ai.tool.call.result': result }),
      ...span.attributes,
    },
  }
}

/** A reward in the agent-lightning form. */
export const reward = (id: string, value: number, over: Partial<SpanSpec> = {}): SpanSpec => ({
  id,
  name: 'agentlightning.annotation',
  ...over,
  attributes: { 'agentlightning.reward.0.name': 'primary', 'agentlightning.reward.0.value': value, ...over.attributes },
})
