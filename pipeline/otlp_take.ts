// What happens to an OTLP request, whatever it came by: it is read, goes on together with others, and is counted. Received is accepted plus
// refused, exactly.

import { exportResponse, type Encoding } from '../data/otlp_answer.ts'
import { fromJson } from '../data/otlp_json.ts'
import { parseJson } from '../data/parse_json.ts'
import { scan, type Scanned } from '../data/scan.ts'
import type { Lease } from './admission.ts'
import { Refused, type Context, type Outputs } from './component.ts'
import { gathering, type Told } from './gather.ts'
import type { OtlpSignal, Take } from './otlp_server.ts'
import { smallRequests, type Copy, type Settled, type Taker } from './small_requests.ts'

export interface Taking {
  readonly take: Take
  /** The same for a small request in protobuf, of which a copy is made. */
  copy(signal: OtlpSignal): Copy
  /** The same for any in protobuf that is there. */
  taker(signal: OtlpSignal): Taker
  /** Counts a request that could not be read, of which take() does not know. */
  untaken(): void
}

/** `open` leases the memory that requests hold. */
export function taking(next: Outputs, transport: 'grpc' | 'http', open: () => Lease, { log, counter }: Context): Taking {
  const outcomes = (outcome: string) => counter('receiver_requests', { transport, outcome })
  const requests = { success: outcomes('success'), refused: outcomes('refused'), failure: outcomes('failure') }
  const signals = { traces: passing('traces', 'spans'), logs: passing('logs', 'log_records') }

  function passing(signal: OtlpSignal, items: string) {
    const pass = next[signal] ?? (async () => {})
    const accepted = counter(`receiver_accepted_${items}`, { transport })
    const refused = counter(`receiver_refused_${items}`, { transport })
    const small = { protobuf: collecting('protobuf'), json: collecting('json') }
    return { pass: gathering(pass), small, accepted, refused }

    function collecting(encoding: Encoding): Copy {
      return smallRequests({
        signal,
        lease: open(),
        success: exportResponse(signal, [], encoding),
        alone: (message, settled) => alone(signal, encoding, message, settled),
        async together(batch, count) {
          try {
            if (batch.count > 0) await pass([batch])
          } catch (error) {
            if (count > 1 && !(error instanceof Refused)) return false
            notTaken(signal, count, batch.count, error)
            throw error
          }
          accepted(batch.count)
          requests.success(count)
          return true
        },
      })
    }
  }

  function notTaken(signal: OtlpSignal, count: number, items: number, error: unknown): void {
    // Back-pressure is everyday; anything else is a fault behind us, and the client may not tell.
    if (!(error instanceof Refused)) log.warn('The pipeline failed to take a request', { transport, error })
    signals[signal].refused(items)
    requests.refused(count)
  }

  const take: Take = async (signal, encoding, read) => {
    const lease = open()
    try {
      const message = await messageOf(signal, encoding, () => read(lease))
      const copy = signals[signal].small[encoding]
      return await promised((settled) => {
        if (copy(message, 0, message.length, settled))
          lease.end() // of its own memory nothing is needed any more
        else alone(signal, encoding, message, settled)
      })
    } finally {
      lease.end()
    }
  }

  function taker(signal: OtlpSignal): Taker {
    const lease = open()
    return (message, settled) => {
      const size = message.length
      try {
        lease.add(size)
      } catch (error) {
        requests.failure(1)
        return settled(NOTHING, error)
      }
      alone(signal, 'protobuf', message, (answer, error) => {
        lease.add(-size)
        settled(answer, error)
      })
    }
  }

  function alone(signal: OtlpSignal, encoding: Encoding, message: Buffer, settled: Settled): void {
    const { pass, accepted, refused } = signals[signal]
    let scanned: Scanned
    try {
      scanned = scan(signal, message)
    } catch (error) {
      requests.failure(1)
      return settled(NOTHING, error)
    }
    const { batch, rejected } = scanned
    const told: Told = (error) => {
      if (error !== undefined) {
        notTaken(signal, 1, rejected.length + batch.count, error)
        return settled(NOTHING, error)
      }
      refused(rejected.length)
      accepted(batch.count)
      requests.success(1)
      settled(exportResponse(signal, rejected, encoding))
    }
    if (batch.count > 0) pass(batch, told)
    else told()
  }

  async function messageOf(signal: OtlpSignal, encoding: Encoding, read: () => Buffer | Promise<Buffer>): Promise<Buffer> {
    try {
      const body = await read()
      return encoding === 'json' ? fromJson(signal, parseJson(body.toString())) : body
    } catch (error) {
      requests.failure(1)
      throw error
    }
  }

  return { take, copy: (signal) => signals[signal].small.protobuf, taker, untaken: () => requests.failure(1) }
}

const NOTHING = Buffer.alloc(0)

const promised = (begin: (settled: Settled) => void): Promise<Uint8Array> =>
  new Promise((resolve, reject) => begin((bytes, error) => (error === undefined ? resolve(bytes) : reject(error as Error))))
