// How the process that trains and the one that started it understand each other.

import type { TrainingStep } from '../storage/training.ts'

/** Holds, as JSON, where rollouts are and what the run is told: `{storage, trainer}`. */
export const TRAINER_VARIABLE = 'LEYDEN_TRAINER'

/** Exit code of a run that paused: starting it again would find the same. */
export const PAUSED = 3

export type TrainerMessage =
  | { readonly kind: 'waiting'; readonly ready: number }
  /** `version`: the newest that was published. */
  | { readonly kind: 'step'; readonly step: TrainingStep; readonly version: number }
