// Long work in slices: what comes in the meantime, above all what waits to be stored and acknowledged, need not wait for the end of it.

import { setImmediate as nextTurn } from 'node:timers/promises'

const SLICE_MS = 10

let began = performance.now()
let turn: Promise<void> | undefined

/** To be awaited between the steps of long work: where all of it together has taken its time, the rest of the event loop has its turn. */
export function giveWay(): Promise<void> | undefined {
  if (performance.now() - began < SLICE_MS) return undefined
  return (turn ??= nextTurn().then(() => {
    began = performance.now()
    turn = undefined
  }))
}
