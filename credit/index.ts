// Every credit method of stage A, by the name that pipeline.yaml uses.

import { discounted } from './discounted.ts'
import { gae_turn } from './gae_turn.ts'
import { identical } from './identical.ts'
import { last } from './last.ts'
import { return_to_go } from './return_to_go.ts'
import type { Method } from './trajectory.ts'

export const methods = { discounted, gae_turn, identical, last, return_to_go } satisfies Record<string, Method>
export type MethodName = keyof typeof methods
