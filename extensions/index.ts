// Every extension, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import clickhouse_storage from './clickhouse_storage.ts'
import health_check from './health_check.ts'

export const extensions: readonly Component<'extension'>[] = [clickhouse_storage, health_check]
