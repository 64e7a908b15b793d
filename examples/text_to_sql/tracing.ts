// OpenTelemetry as any LangChain application sets it up: OpenInference makes spans of its runs.

import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain'
import * as callbacks from '@langchain/core/callbacks/manager'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { NodeSDK, tracing } from '@opentelemetry/sdk-node'

// LangChain calls back in the background, where OpenTelemetry's context is anybody's; spans would have the parents of other rollouts.
process.env.LANGCHAIN_CALLBACKS_BACKGROUND ??= 'false'

const spans = new tracing.BatchSpanProcessor(new OTLPTraceExporter())
const sdk = new NodeSDK({ serviceName: 'text_to_sql', spanProcessors: [spans] })
sdk.start()
new LangChainInstrumentation().manuallyInstrument(callbacks)

/** Resolves when every finished span has been delivered. */
export const flushSpans = (): Promise<void> => spans.forceFlush()

export const stopTracing = (): Promise<void> => sdk.shutdown()
