// Every processor, in alphabetical order.
import type { Component } from '../pipeline/component.ts'

export const processors: readonly Component<'processor'>[] = []
