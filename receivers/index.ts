// Every receiver, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import otlp from './otlp.ts'
import scores from './scores.ts'

export const receivers: readonly Component<'receiver'>[] = [otlp, scores]
