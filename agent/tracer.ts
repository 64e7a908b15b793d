// A light tracer for agents that run no OpenTelemetry: spans by its SDK, sent by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT, by gRPC where
// OTEL_EXPORTER_OTLP_PROTOCOL says so, else by HTTP. Nothing here throws into the agent; what cannot be delivered is dropped and counted.

import { AsyncLocalStorage } from 'node:async_hooks'

import { ROOT_CONTEXT, SpanStatusCode, trace, TraceFlags, type Attributes, type Span } from '@opentelemetry/api'
import { BasicTracerProvider, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace-base'

const MAX_WAITING = 4_096
const BATCH = 512
const FLUSH_MS = 100

/** Where the caller is: in which span, of the rollout of these attributes. */
const place = new AsyncLocalStorage<{ readonly span: Span; readonly rollout: Attributes }>()
const waiting: ReadableSpan[] = []
let exporter: Promise<SpanExporter> | undefined
let timer: NodeJS.Timeout | undefined
let delivering = Promise.resolve()
let lost = 0

const provider = new BasicTracerProvider({ spanProcessors: [{ onStart() {}, onEnd: keep, forceFlush: flush, shutdown: flush }] })
const tracer = provider.getTracer('leyden.agent')

/** Spans that were dropped: Leyden is away, or slower than the agent. */
export const dropped = (): number => lost

/** Resolves when every finished span has been delivered or dropped. */
export function flush(): Promise<void> {
  clearTimeout(timer)
  timer = undefined
  return (delivering = delivering.then(deliver))
}

function keep(span: ReadableSpan): void {
  if (waiting.length === MAX_WAITING) lost++
  else waiting.push(span)
  timer ??= setTimeout(flush, FLUSH_MS).unref()
}

async function deliver(): Promise<void> {
  while (waiting.length > 0) {
    const batch = waiting.splice(0, BATCH)
    const send = (to: SpanExporter) => new Promise<boolean>((resolve) => to.export(batch, ({ code }) => resolve(code === 0)))
    const taken = await (exporter ??= openExporter()).then(send).catch(() => false)
    if (!taken) lost += batch.length
  }
}

async function openExporter(): Promise<SpanExporter> {
  const grpc = process.env.OTEL_EXPORTER_OTLP_PROTOCOL === 'grpc'
  const exporters = await (grpc ? import('@opentelemetry/exporter-trace-otlp-grpc') : import('@opentelemetry/exporter-trace-otlp-proto'))
  return new exporters.OTLPTraceExporter()
}

/** A span below the one that the caller is in; it is the place of what `work` does. */
export async function within<T>(name: string, attributes: Attributes, work: (span: Span) => Promise<T>, rollout = here()): Promise<T> {
  const span = open(name, attributes)
  try {
    return await place.run({ span, rollout }, () => work(span))
  } catch (error) {
    fail(span, error)
    throw error
  } finally {
    span.end()
  }
}

/** A span of its own for a rollout, below one of another process where a traceparent says so. */
export function rolloutSpan<T>(rollout: Attributes, work: () => Promise<T>, traceparent = ''): Promise<T> {
  const [, traceId, spanId] = traceparent.split('-')
  const run = () => within('rollout', rollout, work, rollout)
  if (!traceId || !spanId) return run()
  return place.run({ span: trace.wrapSpanContext({ traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true }), rollout }, run)
}

export function open(name: string, attributes: Attributes): Span {
  const parent = place.getStore()?.span
  return tracer.startSpan(name, { attributes }, parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT)
}

export function fail(span: Span, error: unknown): void {
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  span.setAttribute('error.type', name).setStatus({ code: SpanStatusCode.ERROR, message })
}

const here = (): Attributes => place.getStore()?.rollout ?? {}

/** Say to an endpoint which rollout and which span a request belongs to. */
export function headersOf(span: Span): Record<string, string> {
  const { traceId, spanId } = span.spanContext()
  const ids = Object.entries(here()).map(([name, value]) => [`x-${name.replaceAll('.', '-')}`, String(value)])
  return { ...Object.fromEntries(ids), traceparent: `00-${traceId}-${spanId}-01` }
}
