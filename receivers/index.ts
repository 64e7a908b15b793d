// Every receiver, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import otlp from './otlp.ts'

export const receivers: readonly Component<'receiver'>[] = [otlp]
