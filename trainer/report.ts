// What a person sees of a training run: a line per step, and a bar while it waits.

import type { TrainingStep } from '../storage/training.ts'

export interface Waiting {
  readonly step: number
  readonly ready: number
  readonly wanted: number
  readonly without_signal: number
}

export interface Reporter {
  /** Something worth a line of its own. */
  note(text: string): void
  waiting(state: Waiting): void
  /** `version`: the one that the step published, where it did. */
  step(step: TrainingStep, version: { readonly version: number; readonly status: string } | null): void
}

const BAR_WIDTH = 24
/** Where no bar can be drawn, a wait is told of this often. */
const TELL_EVERY_MS = 60_000

/** @param terminal whether a line can be drawn over */
export function textReporter(write: (text: string) => void, terminal: boolean): Reporter {
  let drawn = false
  let toldAt = 0
  const line = (text: string) => {
    write(`${drawn ? '\r\u001b[K' : ''}${text}\n`)
    drawn = false
  }
  return {
    note: line,
    waiting(state) {
      if (terminal) {
        write(`\r\u001b[K${waitingText(state)}`)
        drawn = true
      } else if (Date.now() - toldAt >= TELL_EVERY_MS) {
        toldAt = Date.now()
        line(waitingText(state))
      }
    },
    step(step, version) {
      toldAt = Date.now()
      line(stepText(step, version))
    },
  }
}

function waitingText({ step, ready, wanted, without_signal }: Waiting): string {
  const full = Math.min(BAR_WIDTH, Math.floor((ready / wanted) * BAR_WIDTH))
  const dropped = without_signal > 0 ? `, ${without_signal} more without signal` : ''
  return `step ${step}  waits  ${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}  ${ready} of ${wanted} groups${dropped}`
}

function stepText(step: TrainingStep, version: { readonly version: number; readonly status: string } | null): string {
  const { reward, success, kl, entropy, clip_fraction, waited, seconds, tokens, groups, dropped_groups } = step
  const parts = [
    `step ${step.step}`,
    `reward ${reward.toFixed(3)}`,
    `success ${success.toFixed(2)}`,
    `KL ${kl.toFixed(4)}`,
    `entropy ${entropy.toFixed(3)}`,
    `clipped ${(100 * clip_fraction).toFixed(1)} %`,
    `${groups} groups${dropped_groups > 0 ? ` (${dropped_groups} without signal)` : ''}`,
    `${Math.round(tokens / Math.max(seconds, 1e-3)).toLocaleString('en')} tokens/s`,
    `${seconds.toFixed(1)} s after ${waited.toFixed(1)} s`,
    ...(version ? [`version ${version.version} ${version.status}`] : []),
  ]
  return parts.join('  ')
}
