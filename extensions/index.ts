// Every extension, in alphabetical order.
import type { Component } from '../pipeline/component.ts'

export const extensions: readonly Component<'extension'>[] = []
