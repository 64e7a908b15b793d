// Every processor, in alphabetical order.
import type { Component } from '../pipeline/component.ts'
import air from './air.ts'
import credit_assignment from './credit_assignment.ts'
import memory_limiter from './memory_limiter.ts'
import policy_calls from './policy_calls.ts'
import redaction from './redaction.ts'

export const processors: readonly Component<'processor'>[] = [air, credit_assignment, memory_limiter, policy_calls, redaction]
