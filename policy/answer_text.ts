// The text of an answer as its tokens are drawn, up to a stop text, which may lie across tokens.

import { overlap } from './overlap.ts'
import type { Tokenizer } from './tokenizer.ts'

export interface AnswerText {
  /** What the token adds for sure; text that may be the beginning of a stop text is held back. `stopped`: a stop text is complete. */
  push(id: number): { readonly text: string; readonly stopped: boolean }
  /** What was held back, when the answer ends for another reason. */
  end(): string
}

export function answerText(tokenizer: Tokenizer, stops: readonly string[]): AnswerText {
  const stream = tokenizer.stream()
  let held = ''
  const cut = (): { text: string; stopped: boolean } => {
    const first = Math.min(...stops.map((stop) => held.indexOf(stop)).filter((at) => at >= 0))
    const stopped = first !== Infinity
    const certain = stopped ? first : held.length - Math.max(0, ...stops.map((stop) => overlap(held, stop)))
    const text = held.slice(0, certain)
    held = stopped ? '' : held.slice(certain)
    return { text, stopped }
  }
  return {
    push(id) {
      held += stream.push(id)
      return cut()
    },
    end() {
      held += stream.end()
      const { text, stopped } = cut()
      return stopped ? text : text + held
    },
  }
}
