// Every credit method of stage A, by the name that pipeline.yaml uses.

import { discounted } from './discounted.ts'
import { gae_turn } from './gae_turn.ts'
import { identical } from './identical.ts'
import { last } from './last.ts'
import { return_to_go } from './return_to_go.ts'
import type { ChainMethod, Method } from './trajectory.ts'

/** Those to which it is enough to know which call follows which, as a stored rollout's row says. */
export const chainMethods = { gae_turn, identical, last } satisfies Record<string, ChainMethod>
export const methods = { discounted, ...chainMethods, return_to_go } satisfies Record<string, Method>
export type MethodName = keyof typeof methods
