// Every exporter, in alphabetical order.
import type { Component } from '../pipeline/component.ts'

export const exporters: readonly Component<'exporter'>[] = []
