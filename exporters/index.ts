// Every exporter, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import clickhouse from './clickhouse.ts'
import debug from './debug.ts'
import file from './file.ts'
import otlp_grpc from './otlp_grpc.ts'
import otlp_http from './otlp_http.ts'

export const exporters: readonly Component<'exporter'>[] = [clickhouse, debug, file, otlp_grpc, otlp_http]
