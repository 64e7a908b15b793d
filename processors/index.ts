// Every processor, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import memory_limiter from './memory_limiter.ts'

export const processors: readonly Component<'processor'>[] = [memory_limiter]
