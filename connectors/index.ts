// Every connector, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import rollouts from './rollouts.ts'

export const connectors: readonly Component<'connector'>[] = [rollouts]
