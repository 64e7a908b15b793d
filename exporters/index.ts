// Every exporter, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import clickhouse from './clickhouse.ts'
import debug from './debug.ts'
import file from './file.ts'

export const exporters: readonly Component<'exporter'>[] = [clickhouse, debug, file]
