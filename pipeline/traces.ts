// Spans about Leyden's own work, sent by OTLP where service::telemetry::traces asks for them. Components do not
// see this: the engine makes the spans through @opentelemetry/api, which does nothing until this has run.

import type { Resource } from '@opentelemetry/resources'

import type { Telemetry } from './config.ts'

/** Loads the SDK only when it is wanted: it takes a fifth of a second and some 25 MB. Returns what stops it. */
export async function startTraces({ processors }: Telemetry['traces'], resource: Resource): Promise<() => Promise<void>> {
  if (!processors.length) return async () => {}
  const [{ NodeSDK, tracing }, { OTLPTraceExporter }, { Metadata }] = await Promise.all([
    import('@opentelemetry/sdk-node'),
    import('@opentelemetry/exporter-trace-otlp-grpc'),
    import('@grpc/grpc-js'),
  ])
  const spanProcessors = processors.map(({ batch }) => {
    const { endpoint, headers } = batch.exporter.otlp
    const metadata = new Metadata()
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
    return new tracing.BatchSpanProcessor(new OTLPTraceExporter({ url: endpoint, metadata }))
  })
  const sdk = new NodeSDK({
    resource,
    spanProcessors,
    metricReaders: [],
    logRecordProcessors: [],
    instrumentations: [],
    autoDetectResources: false,
  })
  sdk.start()
  return () => sdk.shutdown()
}
