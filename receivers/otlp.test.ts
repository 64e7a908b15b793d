import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc'
import { expect, test } from 'vitest'
import { conforms } from '../test/conformance.ts'
import otlp from './otlp.ts'

conforms(otlp, { protocols: { grpc: { endpoint: 'localhost:0' } } })
