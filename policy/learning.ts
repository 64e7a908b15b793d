// What a trainer asks of a policy under training: score rows, take gradients with respect to log-probabilities, step. The contract only.
// Losses are plain functions of log-probabilities, entropies and values (trainer/), so nothing beyond policy/ needs TensorFlow.

/** A sequence to learn from. */
export interface Row {
  /** [T] */
  readonly tokens: Int32Array
  /** [T] 1 where the token is scored: its log-probability given all before it. Never the first. */
  readonly scored: Uint8Array
  /** Sampling temperature of the scored tokens: logits are divided by it. */
  readonly temperature: number
}

/** Figures of every scored token: row by row, in order, end to end. N = all scored tokens of the rows. */
export interface Scores {
  /** [N] */
  readonly logprobs: Float32Array
  /** [N] of the distribution (at the row's temperature) that the token was drawn from, in nats. */
  readonly entropies: Float32Array
  /** [N] of the value head, read before the token; null where the policy has none. */
  readonly values: Float32Array | null
}

/** Derivatives of the loss with respect to Scores; a field left out is zero. */
export interface ScoreGradients {
  readonly logprobs: Float32Array
  readonly entropies?: Float32Array
  readonly values?: Float32Array
}

export interface Learner {
  /** Parameters in all, and those that are trained. */
  readonly parameters: number
  readonly trainable: number
  /** One line: backend, kernels, GFLOP/s. */
  readonly backend: string
  /** Without gradient. `reference`: of the weights before any update (the base under LoRA; the checkpoint that it was opened with otherwise). */
  score(rows: readonly Row[], weights?: 'current' | 'reference'): Promise<Scores>
  /** Scores the rows, asks for the derivatives, and adds the gradients to those waiting for `step`. Called several times: accumulation. */
  accumulate(rows: readonly Row[], derivatives: (scores: Scores) => ScoreGradients): Promise<void>
  /** Clips by global norm, AdamW, forgets the gradients. `grad_norm` is before clipping; a NaN or Inf anywhere rejects and leaves the weights as they were. */
  step(learningRate: number): Promise<{ readonly grad_norm: number }>
  /** What a Hugging Face tool loads: config, tokenizer and weights (or the adapter, with the base's path). Written beside and renamed: whole or absent. */
  save(folder: string): Promise<void>
  /** Weights, optimiser moments and step, exactly; `openLearner({ resume: folder })` goes on to the last bit. */
  saveState(folder: string): Promise<void>
  close(): void
}

export interface LearnerOptions {
  /** Hugging Face folder of the base. */
  readonly base: string
  /** Folder of `saveState` to go on from. */
  readonly resume?: string
  readonly backend: 'auto' | 'node-gpu' | 'wasm' | 'cpu'
  readonly kernels: 'auto' | 'blas' | 'decomp'
  /** Low-rank adapters on these projections instead of full weights. */
  readonly lora?: { readonly rank: number; readonly alpha: number; readonly targets: readonly string[] }
  readonly value_head: boolean
  readonly optimizer: {
    readonly beta1: number
    readonly beta2: number
    readonly epsilon: number
    readonly weight_decay: number
    readonly clip_norm: number
  }
  /** Most tokens (padding included) in one pass: rows are packed into passes of at most this. */
  readonly tokens_per_pass: number
  readonly seed: number
}
