// Responses that clients may refer to by id instead of sending them again, as the Vercel AI SDK does unless `store` is false. Only the
// latest are remembered, only in this process: it is a convenience, and a client that sends everything never needs it.

import type { Json } from './fields.ts'

export interface Remembered {
  keep(response: string, input: readonly unknown[], output: readonly Json[]): void
  /** All that was said up to the end of a response. */
  conversation(response: string): readonly unknown[] | undefined
  /** One item that a response put out. */
  item(id: string): Json | undefined
}

interface Kept {
  readonly items: readonly unknown[]
  readonly output: readonly Json[]
  readonly bytes: number
}

export function createRemembered(maxBytes: number): Remembered {
  /** The oldest first. */
  const responses = new Map<string, Kept>()
  const owners = new Map<string, string>()
  let bytes = 0

  function forget(response: string, kept: Kept): void {
    responses.delete(response)
    for (const { id } of kept.output) owners.delete(String(id))
    bytes -= kept.bytes
  }

  return {
    keep(response, input, output) {
      const items = [...input, ...output]
      const kept = { items, output, bytes: JSON.stringify(items).length }
      responses.set(response, kept)
      for (const { id } of output) owners.set(String(id), response)
      bytes += kept.bytes
      for (const [oldest, old] of responses) {
        if (bytes <= maxBytes) break
        forget(oldest, old)
      }
    },
    conversation: (response) => responses.get(response)?.items,
    item: (id) => responses.get(owners.get(id) ?? '')?.output.find((item) => item.id === id),
  }
}
