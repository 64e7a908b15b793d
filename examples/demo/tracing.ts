// OpenTelemetry as any application sets it up. The exporter sends to OTEL_EXPORTER_OTLP_ENDPOINT.

import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { NodeSDK, tracing } from '@opentelemetry/sdk-node'

const spans = new tracing.BatchSpanProcessor(new OTLPTraceExporter())
const sdk = new NodeSDK({ serviceName: 'calculator_agent', spanProcessors: [spans] })
sdk.start()

/** Resolves when every finished span has been delivered. */
export const flushSpans = (): Promise<void> => spans.forceFlush()

export const stopTracing = (): Promise<void> => sdk.shutdown()
