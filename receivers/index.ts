// Every receiver, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import clickhouse_traces from './clickhouse_traces.ts'
import openai from './openai.ts'
import otlp from './otlp.ts'
import otlp_json_file from './otlp_json_file.ts'
import scores from './scores.ts'

export const receivers: readonly Component<'receiver'>[] = [clickhouse_traces, openai, otlp, otlp_json_file, scores]
