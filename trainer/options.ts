// What a training run is told. Spelled as in pipeline.yaml: extensions/trainer.ts has the schema, with a sentence for each.

import type { LearnerOptions } from '../policy/learning.ts'
import type { AlgorithmName } from './algorithms/index.ts'
import type { MergeOptions } from './merge.ts'

export interface TrainerOptions {
  readonly policy: string
  /** Hugging Face folder that training begins with: version 0. */
  readonly base: string
  /** Where versions are written: `<policies_dir>/<policy>/<version>`. */
  readonly policies_dir: string

  readonly algorithm: AlgorithmName
  readonly learning_rate: number
  readonly schedule: 'constant' | 'linear' | 'cosine'
  readonly warmup_steps: number
  /** The run ends after this step; null: never by itself. */
  readonly steps: number | null

  readonly groups_per_step: number
  readonly epochs: number
  /** Updates per epoch. */
  readonly minibatches: number
  /** How many versions may have been published since the one that sampled a row. */
  readonly max_staleness: number
  readonly rows: MergeOptions['rows']
  /** Longest row, in tokens; null: the model's context. */
  readonly max_tokens: number | null
  readonly allow_retokenized: boolean

  readonly publish_every: number
  readonly promote: 'auto' | 'manual'
  readonly eval_every: number
  readonly keep: number
  readonly early_stop: { readonly reward: number | null; readonly patience: number | null }
  readonly on_breach: 'pause' | 'continue'

  readonly seed: number
  readonly backend: LearnerOptions['backend']
  readonly kernels: LearnerOptions['kernels']
  readonly lora: { readonly rank: number; readonly alpha: number; readonly targets: readonly string[] } | null
  readonly optimizer: LearnerOptions['optimizer']
  readonly tokens_per_pass: number
}
