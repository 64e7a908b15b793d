// A toy where credit decides: an agent needs K results of a useful tool that sometimes fails, beside a tool that always works and helps
// nothing, and a malformed call. A table of softmax policies, one a state, trained with groups of 16 rollouts. It shows what each way to
// pay for intermediate results teaches; `raw`, uncapped and paid again for repeats, is offered nowhere but here.

import { bonus, type AskedTool } from '../credit/bonus.ts'
import { gae_turn } from '../credit/gae_turn.ts'
import { phi } from '../credit/potential.ts'
import { annealed, scheduledLambda } from '../credit/schedule.ts'
import { formatTable } from './table.ts'

const NEEDED = 5
const LONGEST = 16
const ACTIONS = 4
const SUBMIT = 3
const WORKS = 0.8
/** The agent begins fond of what is of no use: few tries in a thousand succeed. */
const HABITS = [0, 0.5, 0.5, 0]
const UPDATES = 200
const GROUP = 16
const RATE = 0.3
const SUCCESS = 0.8
const WINDOW = 10

type AirClass = AskedTool['air_class']
interface Turn {
  /** Results of the useful tool so far. */
  readonly state: number
  readonly action: number
  readonly tool: { readonly key: string; readonly air_class: AirClass } | null
}
interface Try {
  readonly turns: readonly Turn[]
  readonly reward: number
}
type Random = () => number
/** Advantages of every turn of a group's tries. */
type Credit = (tries: readonly Try[], update: number) => number[][]

const CREDITS: Readonly<Record<string, Credit>> = {
  'terminal only': (tries) => normalized(tries, ({ reward }) => reward),
  raw: (tries) => normalized(tries, ({ turns, reward }) => reward + sum(turns.map(({ tool }) => rawPay(tool?.air_class)))),
  bonus: (tries, update) =>
    normalized(tries, ({ turns, reward }) => reward + sum(bonus(asked(turns), turns.length, 0.2 * annealed(update, 120)))),
  potential: (tries, update) => whitened(tries.map((one) => gaeOf(one, update))),
}

export function airToy(seeds: number): void {
  const rows = Object.entries(CREDITS).map(([name, credit]) => {
    const curves = Array.from({ length: seeds }, (_, seed) => train(credit, seeded(seed)))
    const reached = curves.map(firstAt80)
    const final = curves.map((curve) => sum(curve.slice(-20)) / 20)
    const median = [...reached].sort((a, b) => a - b).slice(Math.floor((seeds - 1) / 2), Math.floor(seeds / 2) + 1)
    const updates = sum(median) / median.length
    return [
      name,
      (sum(final) / seeds).toFixed(3),
      Number.isFinite(updates) ? String(updates) : `> ${UPDATES}`,
      `${reached.filter(Number.isFinite).length}/${seeds}`,
    ]
  })
  console.log(formatTable(['credit', 'success at the end', 'median updates to 80 %', 'seeds that got there'], rows))
}

/** Mean reward of each update's group. */
function train(credit: Credit, random: Random): number[] {
  const logits = Array.from({ length: NEEDED + 1 }, () => Float64Array.from(HABITS))
  const curve: number[] = []
  for (let update = 0; update < UPDATES; update++) {
    const tries = Array.from({ length: GROUP }, () => tryOnce(logits, random))
    curve.push(sum(tries.map(({ reward }) => reward)) / GROUP)
    const advantages = credit(tries, update)
    const gradient = logits.map(() => new Float64Array(ACTIONS))
    for (const [i, { turns }] of tries.entries()) {
      for (const [t, { state, action }] of turns.entries()) {
        const probabilities = softmax(logits[state]!)
        for (let a = 0; a < ACTIONS; a++) gradient[state]![a]! += advantages[i]![t]! * ((a === action ? 1 : 0) - probabilities[a]!)
      }
    }
    for (const [s, row] of logits.entries()) for (let a = 0; a < ACTIONS; a++) row[a]! += (RATE * gradient[s]![a]!) / GROUP
  }
  return curve
}

function tryOnce(logits: readonly Float64Array[], random: Random): Try {
  const turns: Turn[] = []
  let state = 0
  while (turns.length < LONGEST) {
    const action = sample(softmax(logits[state]!), random)
    if (action === SUBMIT) return { turns: [...turns, { state, action, tool: null }], reward: state === NEEDED ? 1 : 0 }
    const works = action === 1 || (action === 0 && random() < WORKS)
    // The useful tool asks for the next thing each time; the trivial one always for the same.
    const key = action === 0 ? `useful ${state}` : `trivial ${action}`
    const air_class = action === 2 ? 'policy_error' : works ? 'ok' : 'empty'
    turns.push({ state, action, tool: { key, air_class } })
    if (action === 0 && works) state = Math.min(NEEDED, state + 1)
  }
  return { turns, reward: 0 }
}

const rawPay = (air_class: AirClass | undefined) => (air_class === 'ok' ? 0.1 : air_class === 'policy_error' ? -0.1 : 0)

const asked = (turns: readonly Turn[]): AskedTool[] => turns.flatMap(({ tool }, call) => (tool ? [{ call, ...tool }] : []))

/** As Leyden does it: each turn after the other, the potential of what came before it as value. */
function gaeOf({ turns, reward }: Try, update: number): number[] {
  const found = new Set<string>()
  let errors = 0
  const phis = turns.map(({ tool }) => {
    const before = phi(found.size, errors, 0.3)
    if (tool?.air_class === 'ok') found.add(tool.key)
    if (tool?.air_class === 'policy_error') errors++
    return before
  })
  const nothing = turns.map(() => 0)
  const next = turns.map((_, i) => (i + 1 < turns.length ? i + 1 : -1))
  const chain = { next, steps: nothing, air: nothing, phi: phis, outcome: reward }
  return gae_turn(chain, { gamma: 1, lambda: scheduledLambda(update) }).map((value, i) => value - phis[i]!)
}

/** GRPO: the same for every turn of a try. */
function normalized(tries: readonly Try[], worth: (one: Try) => number): number[][] {
  const values = tries.map(worth)
  const { mean, std } = spreadOf(values, 1)
  return tries.map(({ turns }, i) => turns.map(() => (values[i]! - mean) / (std + 1e-6)))
}

function whitened(advantages: readonly number[][]): number[][] {
  const { mean, std } = spreadOf(advantages.flat(), 0)
  return advantages.map((row) => row.map((value) => (value - mean) / (std + 1e-6)))
}

function spreadOf(values: readonly number[], lost: 0 | 1): { mean: number; std: number } {
  const mean = sum(values) / values.length
  return { mean, std: Math.sqrt(sum(values.map((v) => (v - mean) ** 2)) / (values.length - lost)) }
}

/** The first window of updates whose mean is there. */
function firstAt80(curve: readonly number[]): number {
  for (let i = 0; i + WINDOW <= curve.length; i++) if (sum(curve.slice(i, i + WINDOW)) / WINDOW >= SUCCESS) return i
  return Infinity
}

function softmax(logits: Float64Array): Float64Array {
  const highest = Math.max(...logits)
  const weights = logits.map((z) => Math.exp(z - highest))
  const total = sum([...weights])
  return weights.map((w) => w / total)
}

function sample(probabilities: Float64Array, random: Random): number {
  let left = random()
  for (const [action, p] of probabilities.entries()) if ((left -= p) < 0) return action
  return probabilities.length - 1
}

/** Mulberry32. */
function seeded(seed: number): Random {
  let state = (seed * 0x9e3779b9) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 15), z | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, v) => total + v, 0)
