// An answer as its tokens are drawn: what of its text an agent is to see, and the tool calls that are written in it.

import { randomBytes } from 'node:crypto'

import type { SampledToken } from '../policy/decoding.ts'
import type { ParsedPiece, ToolStream } from '../policy/tool_parsers/parser.ts'
import type { Answer, Piece, ToolCall } from './api.ts'

export interface DrawnAnswer {
  push(token: SampledToken): void
  /** Fires when nothing more is wanted. */
  readonly enough: AbortSignal
  end(finish: 'stop' | 'length'): Answer
}

/** @param tools reads tool calls; without it all is text. @param onlyOne ends the answer with its first call */
export function drawnAnswer(tools: ToolStream | undefined, onlyOne: boolean, each: (piece: Piece) => void): DrawnAnswer {
  const enough = new AbortController()
  const tokens: SampledToken[] = []
  const calls: ToolCall[] = []
  let text = ''
  /** Blank text is shown only when text follows: around calls it is none. */
  let blank = ''

  function show(pieces: readonly ParsedPiece[], drawn: readonly SampledToken[]): void {
    let added = ''
    const begun: { index: number; id: string; name: string; arguments: string }[] = []
    for (const piece of pieces) {
      if (piece.kind === 'call') {
        if (onlyOne && calls.length > 0) continue
        const call = { id: `call_${randomBytes(12).toString('hex')}`, ...piece.call }
        begun.push({ index: calls.length, ...call })
        calls.push(call)
        if (onlyOne) enough.abort()
        continue
      }
      blank += piece.text
      if (blank.trim() === '') continue
      added += blank
      blank = ''
    }
    text += added
    each({ text: added, tool_calls: begun, tokens: drawn })
  }

  return {
    enough: enough.signal,
    push(token) {
      if (enough.signal.aborted) return
      tokens.push(token)
      show(tools ? tools.push(token.text) : [{ kind: 'content', text: token.text }], [token])
    },
    end(finish) {
      if (tools && !enough.signal.aborted) show(tools.end(), [])
      if (blank !== '' && calls.length === 0) {
        text += blank
        each({ text: blank, tool_calls: [], tokens: [] })
      }
      return { text, tool_calls: calls, finish_reason: calls.length > 0 && finish === 'stop' ? 'tool_calls' : finish, tokens }
    },
  }
}
