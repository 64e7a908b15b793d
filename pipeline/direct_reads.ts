// Reading a socket into one buffer for all connections. Node allocates 64 KB for each read of a server's socket, which costs more than
// the rest of receiving a large message; only a client's socket can be told to read elsewhere (option `onread`). So the connection is
// handed to such a socket. Should a Node come that keeps its handle elsewhere, the socket is read as usual.

import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net'

import { takeMemory } from '../data/shared_memory.ts'

const READ_BYTES = 256 << 10
/** Shared, since all that is read is copied to where messages are. */
let common: Buffer | undefined

export interface Reader {
  /** Takes what was read; it must not keep the piece. */
  receive(piece: Buffer): void
  /** Where the next read is to go, if not to the buffer for all. */
  place?(): Buffer | undefined
}

/** Takes a socket of a server with `pauseOnConnect` and returns the one that replaces it, paused. */
export function readDirectly(accepted: Socket, { receive, place }: Reader): Socket {
  const { _handle: handle, allowHalfOpen } = accepted as Inside
  if (!handle) return accepted.on('data', receive).pause()
  const buffer = (common ??= takeMemory(READ_BYTES))
  const onread: OnReadOpts = {
    buffer: place ? () => place() ?? buffer : buffer,
    callback(bytes, into) {
      receive((into as Buffer).subarray(0, bytes))
      return true
    },
  }
  const socket = new Socket({ handle, onread, allowHalfOpen } as SocketConstructorOpts)
  ;(accepted as Inside)._handle = null
  accepted.destroy() // only the shell, so that the server no longer counts it
  return socket
}

type Inside = { _handle?: object | null; allowHalfOpen: boolean }
