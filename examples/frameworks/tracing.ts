import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { NodeSDK } from '@opentelemetry/sdk-node'

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() })
sdk.start()

/** Resolves when every finished span has been delivered. */
export const stopTracing = (): Promise<void> => sdk.shutdown()
