// A policy under training: rows are scored, the caller says how the loss depends on the scores, gradients are gathered, a step is taken.

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'

import type * as TF from '@tensorflow/tfjs-core'

import { type AdamW, adamw } from './adamw.ts'
import { openBackend } from './backend.ts'
import type { Gradients, Linear } from './block.ts'
import { readCheckpoint, writeCheckpoint } from './checkpoint.ts'
import type { Learner, LearnerOptions, ScoreGradients, Scores } from './learning.ts'
import { initAdapters, writeAdapter } from './lora.ts'
import { type Adapters, buildModel, type Model, type Parameter, transpose } from './model.ts'
import { pack, type Pass } from './pack.ts'
import { backwardPass, disposePass, forwardPass, type PassModel, type PassScores, type PassTape, scorePass } from './pass.ts'
import { readSafetensors, type Weight, writeSafetensors } from './safetensors.ts'

/** What may be spent on keeping activations between forward and backward; beyond it they are computed twice. */
const KEPT_BYTES = 512 * 2 ** 20

const STATE = 'learner.safetensors'
const VALUE_WEIGHT = 'value_head.weight'
const VALUE_BIAS = 'value_head.bias'

/** Loads the base, or goes on from a saved state. Rejects, naming file and tensor, when something cannot be read or does not fit. */
export async function openLearner(options: LearnerOptions): Promise<Learner> {
  const { tf, line } = await openBackend(options)
  const { config, weights, base } = readCheckpoint(options.base)
  const lora = options.lora
  const adapters: Adapters = lora ? initAdapters(config, lora, options.seed) : new Map()
  const model = buildModel(tf, config, weights, {
    trainable: (name) => !lora || name.includes('.lora_'),
    adapters,
    adapterScale: lora ? lora.alpha / lora.rank : 1,
  })
  const valueHead = options.value_head ? newValueHead(tf, config.hidden) : null
  const policy: PassModel = { model, blocks: model.blocks, valueHead }
  const trained = trainedParameters(model, valueHead)
  const optimizer = adamw(tf, new Map([...trained].map(([name, { tensor }]) => [name, tensor as TF.Variable])), options.optimizer)
  if (options.resume) restoreState(tf, join(options.resume, STATE), trained, optimizer)

  const gradients = gradientSum(tf, trained)
  const limits = { tokens_per_pass: options.tokens_per_pass, context: config.context, vocabulary: config.vocabulary }
  let reference: PassModel | null = null

  /** Under LoRA the base is there already; else the files are read again, the first time that somebody asks. */
  const openReference = (): PassModel => {
    if (lora) return { model, blocks: model.blocks.map(withoutAdapters), valueHead: null }
    const untouched = buildModel(tf, config, readCheckpoint(options.base).weights)
    return { model: untouched, blocks: untouched.blocks, valueHead: null }
  }

  return {
    parameters: count([...model.parameters.values()]) + (valueHead ? config.hidden + 1 : 0),
    trainable: count([...trained.values()]),
    backend: line,

    score: async (rows, which = 'current') => {
      const scorer = which === 'current' ? policy : (reference ??= openReference())
      const { passes, scored } = pack(rows, limits)
      const scores = emptyScores(scored, scorer.valueHead !== null)
      for (const pass of passes) {
        place(scores, pass, await scorePass(tf, scorer, pass))
        await breathe()
      }
      return checked(scores)
    },

    accumulate: async (rows, derivatives) => {
      const { passes, scored } = pack(rows, limits)
      const scores = emptyScores(scored, valueHead !== null)
      const room = { bytes: KEPT_BYTES }
      const tapes: PassTape[] = []
      try {
        for (const pass of passes) {
          const { scores: figures, tape } = await forwardPass(tf, policy, pass, room)
          tapes.push(tape)
          place(scores, pass, figures)
          await breathe()
        }
        const wanted = checkedDerivatives(derivatives(checked(scores)), scored, valueHead !== null)
        for (let tape = tapes.shift(); tape; tape = tapes.shift()) {
          backwardPass(tf, policy, tape, pick(wanted, tape.pass), gradients)
          await breathe()
        }
      } finally {
        for (const tape of tapes) disposePass(tf, tape)
      }
    },

    step: async (learningRate) => {
      try {
        return { grad_norm: await optimizer.step(gradients.sums, learningRate) }
      } finally {
        gradients.clear()
      }
    },

    save: (folder) =>
      whole(folder, async (unfinished) => {
        if (lora) writeAdapter(unfinished, resolve(options.base), lora, await readAdapters(model))
        else writeCheckpoint(unfinished, base, await readWeights(model.parameters))
      }),

    saveState: (folder) =>
      whole(folder, async (unfinished) => {
        mkdirSync(unfinished, { recursive: true })
        writeSafetensors(join(unfinished, STATE), await readState(trained, optimizer))
      }),

    close: () => {
      gradients.clear()
      optimizer.dispose()
      model.dispose()
      if (reference && reference.model !== model) reference.model.dispose()
      if (valueHead) tf.dispose([valueHead.weight, valueHead.bias!])
    },
  }
}

/** Zeros: no opinion yet. */
function newValueHead(tf: typeof TF, hidden: number): Linear {
  const zeros = (...shape: number[]) => tf.tidy(() => tf.variable(tf.zeros(shape)))
  return { weight: zeros(hidden, 1), bias: zeros(1), adapter: null }
}

function withoutAdapters(block: Model['blocks'][number]): Model['blocks'][number] {
  const plain = (part: Linear): Linear => ({ ...part, adapter: null })
  const { q, k, v, o, gate, up, down } = block
  return { ...block, q: plain(q), k: plain(k), v: plain(v), o: plain(o), gate: plain(gate), up: plain(up), down: plain(down) }
}

function trainedParameters(model: Model, valueHead: Linear | null): Map<string, Parameter> {
  const trained = new Map([...model.parameters].filter(([, { trainable }]) => trainable))
  if (valueHead) {
    trained.set(VALUE_WEIGHT, { tensor: valueHead.weight, transposed: false, trainable: true })
    trained.set(VALUE_BIAS, { tensor: valueHead.bias!, transposed: false, trainable: true })
  }
  return trained
}

function count(parameters: readonly Parameter[]): number {
  return parameters.reduce((sum, { tensor }) => sum + tensor.size, 0)
}

/** Sums of gradients by parameter name. */
function gradientSum(
  tf: typeof TF,
  trained: ReadonlyMap<string, Parameter>,
): Gradients & { readonly sums: ReadonlyMap<string, TF.Tensor>; clear(): void } {
  const names = new Map([...trained].map(([name, { tensor }]) => [tensor, name]))
  const sums = new Map<string, TF.Tensor>()
  return {
    sums,
    add: (parameter, gradient) => {
      const name = names.get(parameter)
      if (name === undefined) return
      const sum = sums.get(name)
      sums.set(name, tf.keep(sum ? tf.add(sum, gradient()) : gradient()))
      sum?.dispose()
    },
    clear: () => {
      tf.dispose([...sums.values()])
      sums.clear()
    },
  }
}

function emptyScores(n: number, hasValues: boolean): Scores {
  return { logprobs: new Float32Array(n), entropies: new Float32Array(n), values: hasValues ? new Float32Array(n) : null }
}

/** A pass's figures into their places among the rows'. */
function place(scores: Scores, { places }: Pass, figures: PassScores): void {
  for (let i = 0; i < places.length; i++) {
    scores.logprobs[places[i]!] = figures.logprobs[i]!
    scores.entropies[places[i]!] = figures.entropies[i]!
    if (scores.values) scores.values[places[i]!] = figures.values![i]!
  }
}

/** The other way round. */
function pick(all: ScoreGradients, { places }: Pass): ScoreGradients {
  const of = (values: Float32Array) => Float32Array.from(places, (at) => values[at]!)
  return {
    logprobs: of(all.logprobs),
    ...(all.entropies && { entropies: of(all.entropies) }),
    ...(all.values && { values: of(all.values) }),
  }
}

function checked(scores: Scores): Scores {
  const bad = scores.logprobs.findIndex((value) => !Number.isFinite(value))
  if (bad !== -1) throw new Error(`the log-probability of scored token ${bad} is ${scores.logprobs[bad]}: the weights have exploded`)
  return scores
}

function checkedDerivatives(derivatives: ScoreGradients, n: number, hasValues: boolean): ScoreGradients {
  for (const [name, values] of Object.entries(derivatives) as [string, Float32Array | undefined][]) {
    if (!values) continue
    if (values.length !== n) throw new Error(`derivatives.${name}: must be ${n} numbers, one per scored token (got ${values.length})`)
    const bad = values.findIndex((value) => !Number.isFinite(value))
    if (bad !== -1) throw new Error(`derivatives.${name}: place ${bad} is ${values[bad]}`)
  }
  if (derivatives.values && !hasValues) throw new Error('derivatives.values: this policy has no value head')
  return derivatives
}

async function readWeights(parameters: ReadonlyMap<string, Parameter>): Promise<Map<string, Weight>> {
  const weights = new Map<string, Weight>()
  for (const [name, { tensor, transposed }] of parameters) {
    const data = await tensor.data<'float32'>()
    const shape = transposed ? tensor.shape.toReversed() : tensor.shape
    weights.set(name, { shape, data: transposed ? transpose(data, tensor.shape) : data })
  }
  return weights
}

async function readAdapters(model: Model): Promise<Adapters> {
  const isAdapter = /(.*)\.lora_A\.weight$/
  const weights = await readWeights(new Map([...model.parameters].filter(([name]) => name.includes('.lora_'))))
  return new Map(
    [...weights].flatMap(([name, a]) => {
      const module = isAdapter.exec(name)?.[1]
      return module ? [[`${module}.weight`, { a, b: weights.get(`${module}.lora_B.weight`)! }] as const] : []
    }),
  )
}

/** As they lie on the device, so that nothing is rounded or turned. */
async function readState(trained: ReadonlyMap<string, Parameter>, optimizer: AdamW): Promise<Map<string, Weight>> {
  const state = new Map<string, Weight>([['step', { shape: [1], data: Float32Array.of(optimizer.steps) }]])
  const put = async (name: string, tensor: TF.Tensor) => state.set(name, { shape: tensor.shape, data: await tensor.data<'float32'>() })
  for (const [name, { tensor }] of trained) {
    const { m, v } = optimizer.moments.get(name)!
    await put(name, tensor)
    await put(`m.${name}`, m)
    await put(`v.${name}`, v)
  }
  return state
}

function restoreState(tf: typeof TF, file: string, trained: ReadonlyMap<string, Parameter>, optimizer: AdamW): void {
  if (!existsSync(file)) throw new Error(`${file} does not exist: nothing to resume from`)
  const state = readSafetensors(file)
  const get = (name: string, shape: readonly number[]): Float32Array => {
    const found = state.get(name)
    if (found?.shape.join() !== shape.join()) {
      throw new Error(
        `${file}: tensor ${name} must be [${shape.join(', ')}] (got ${found ? `[${found.shape.join(', ')}]` : 'nothing'}): it was saved by another policy`,
      )
    }
    return found.data
  }
  const [steps] = get('step', [1])
  const moments = new Map<string, [Float32Array, Float32Array]>()
  for (const [name, { tensor }] of trained) {
    const saved = get(name, tensor.shape)
    tf.tidy(() => (tensor as TF.Variable).assign(tf.tensor(saved, tensor.shape)))
    moments.set(name, [get(`m.${name}`, tensor.shape), get(`v.${name}`, tensor.shape)])
  }
  optimizer.restore(steps!, moments)
}

/** Written beside and renamed, so that `folder` is whole or as it was. */
async function whole(folder: string, write: (unfinished: string) => Promise<void>): Promise<void> {
  const unfinished = `${folder}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  try {
    await write(unfinished)
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true })
    throw error
  }
  rmSync(folder, { recursive: true, force: true })
  renameSync(unfinished, folder)
}

/** TensorFlow.js computes where it is called: between passes, whatever else this thread does gets its turn. */
function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
