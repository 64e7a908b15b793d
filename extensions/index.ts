// Every extension, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import basic_auth from './basic_auth.ts'
import bearer_token_auth from './bearer_token_auth.ts'
import clickhouse_storage from './clickhouse_storage.ts'
import file_storage from './file_storage.ts'
import health_check from './health_check.ts'
import trainer from './trainer.ts'

export const extensions: readonly Component<'extension'>[] = [
  basic_auth,
  bearer_token_auth,
  clickhouse_storage,
  file_storage,
  health_check,
  trainer,
]
