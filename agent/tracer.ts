// A light tracer for agents that run no OpenTelemetry: spans by its SDK, sent by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT, by gRPC where
// OTEL_EXPORTER_OTLP_PROTOCOL says so, else by HTTP. Nothing here throws into the agent; what cannot be delivered is dropped and counted.

import { AsyncLocalStorage } from 'node:async_hooks'

import { createContextKey, ROOT_CONTEXT, SpanStatusCode, trace, type Attributes, type Context, type Span } from '@opentelemetry/api'
import { BasicTracerProvider, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace-base'

const [MAX_WAITING, BATCH, FLUSH_MS] = [4_096, 512, 100]

/** Where the caller is: in which span, and of which rollout. */
const place = new AsyncLocalStorage<Context>()
const here = (): Context => place.getStore() ?? ROOT_CONTEXT
const ROLLOUT = createContextKey('attributes of the rollout')
export const open = (name: string, attributes: Attributes, parent = here()): Span => tracer.startSpan(name, { attributes }, parent)

const waiting: ReadableSpan[] = []
let exporter: Promise<SpanExporter> | undefined
let delivering = Promise.resolve()
let lost = 0
/** Spans that were dropped: Leyden is away, or slower than the agent. */
export const dropped = (): number => lost
/** Resolves when every finished span has been delivered or dropped. */
export const flush = (): Promise<void> => (delivering = delivering.then(deliver))
const provider = new BasicTracerProvider({ spanProcessors: [{ onStart() {}, onEnd: keep, forceFlush: flush, shutdown: flush }] })
const tracer = provider.getTracer('leyden.agent')

function keep(span: ReadableSpan): void {
  if (waiting.length === MAX_WAITING) lost++
  else if (waiting.push(span) === 1) setTimeout(flush, FLUSH_MS).unref()
}

async function deliver(): Promise<void> {
  while (waiting.length > 0) {
    const batch = waiting.splice(0, BATCH)
    const send = (to: SpanExporter) => new Promise<boolean>((resolve) => to.export(batch, ({ code }) => resolve(code === 0)))
    if (!(await (exporter ??= openExporter()).then(send).catch(() => false))) lost += batch.length
  }
}

async function openExporter(): Promise<SpanExporter> {
  const grpc = process.env.OTEL_EXPORTER_OTLP_PROTOCOL === 'grpc'
  const exporters = await (grpc ? import('@opentelemetry/exporter-trace-otlp-grpc') : import('@opentelemetry/exporter-trace-otlp-proto'))
  return new exporters.OTLPTraceExporter()
}

/** A span below the one that the caller is in; it is the place of what `work` does. */
export function within<T>(name: string, attributes: Attributes, work: (span: Span) => Promise<T>, parent = here()): Promise<T> {
  const span = open(name, attributes, parent)
  const working = place.run(trace.setSpan(parent, span), async () => work(span))
  working.catch((error: unknown) => fail(span, error))
  return working.finally(() => span.end())
}

/** A span of its own for a rollout, below one of another process where a traceparent says so. */
export function rolloutSpan<T>(ids: object, work: () => Promise<T>, traceparent = ''): Promise<T> {
  const attributes = Object.fromEntries(Object.entries(ids).map(([name, value]) => [`leyden.${name.replace('_', '.')}`, value as string]))
  const [, traceId, spanId] = traceparent.split('-')
  const parent = traceId && spanId ? trace.setSpanContext(here(), { traceId, spanId, traceFlags: 1, isRemote: true }) : here()
  return within('rollout', attributes, work, parent.setValue(ROLLOUT, attributes))
}

/** Say to an endpoint which rollout and which span a request belongs to. */
export function headersOf(span: Span): Record<string, string> {
  const { traceId, spanId } = span.spanContext()
  const ids = Object.entries(here().getValue(ROLLOUT) ?? {}).map(([name, value]) => [`x-${name.replaceAll('.', '-')}`, String(value)])
  return { ...Object.fromEntries(ids), traceparent: `00-${traceId}-${spanId}-01` }
}

export function fail(span: Span, error: unknown): Span {
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return span.setAttribute('error.type', name).setStatus({ code: SpanStatusCode.ERROR, message })
}

/** Objects are written as JSON. What cannot be read is missing: an agent never fails for being watched. */
export function write(span: Span, read: () => object): Span {
  try {
    for (const [name, value] of Object.entries(read())) span.setAttribute(name, typeof value === 'object' ? JSON.stringify(value) : value)
  } catch {
    span.setAttribute('leyden.unreadable', true)
  }
  return span
}
