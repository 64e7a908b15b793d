// Every algorithm, by the name that pipeline.yaml uses.

import type { Algorithm, Objective, Options } from '../algorithm.ts'
import grpo from './grpo.ts'
import ppo from './ppo.ts'
import reinforce_pp from './reinforce_pp.ts'
import rloo from './rloo.ts'
import sft from './sft.ts'

export const algorithms = { grpo, ppo, reinforce_pp, rloo, sft } satisfies Record<string, Algorithm<any>>
export type AlgorithmName = keyof typeof algorithms

/** Options that are not given have their defaults; whether those given fit is for whoever read them to say. */
export function objectiveOf(name: AlgorithmName, given: Readonly<Record<string, number | boolean | string>> = {}): Objective {
  const { options, create }: Algorithm<any> = algorithms[name]
  const defaults = Object.fromEntries(Object.entries(options as Options).map(([key, option]) => [key, option.default]))
  return create({ ...defaults, ...given })
}
