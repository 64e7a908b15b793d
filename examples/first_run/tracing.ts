// OpenTelemetry as any application sets it up: the SDK, an exporter, an instrumentation for the OpenAI client.
// The exporters send to OTEL_EXPORTER_OTLP_ENDPOINT, else to localhost:4317, where Leyden listens.

import { OpenAIInstrumentation } from '@arizeai/openinference-instrumentation-openai'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { logs, NodeSDK, tracing } from '@opentelemetry/sdk-node'
import OpenAI from 'openai'

const spans = new tracing.BatchSpanProcessor(new OTLPTraceExporter())
const records = new logs.BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })
const sdk = new NodeSDK({ serviceName: 'order_agent', spanProcessors: [spans], logRecordProcessors: [records] })
sdk.start()

// Instrumentations hook into `require`; a program of ES modules hands over the client's class itself.
new OpenAIInstrumentation().manuallyInstrument(OpenAI)

export { OpenAI }

/** Resolves when every finished span has been acknowledged. */
export const flushSpans = (): Promise<void> => spans.forceFlush()

export const stopTracing = (): Promise<void> => sdk.shutdown()
