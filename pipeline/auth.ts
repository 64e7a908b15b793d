// Who may send. A receiver asks an authenticator, which is an extension, before it reads a request's body.

import type { Context } from './component.ts'
import { extensionId, group, type Config } from './schema.ts'

/** A header of a request (metadata in gRPC), by its name in lower case. */
export type Header = (name: string) => string | undefined

/**
 * Lets a request pass, or throws (or rejects with) Unauthenticated. Any other error means that it cannot be told now. Nothing is
 * returned where it is known at once.
 */
export type Authenticate = (header: Header) => Promise<void> | undefined

/** The api of an extension that other components may name as `authenticator`. */
export interface Authenticator {
  readonly authenticate: Authenticate
}

export class Unauthenticated extends Error {
  override name = 'Unauthenticated'
  /** What the client is to send, as the header WWW-Authenticate has it. */
  readonly challenge: string
  constructor(message: string, challenge: string) {
    super(message)
    this.challenge = challenge
  }
}

export const auth = group(
  { authenticator: extensionId('authenticator', 'The extension that says who may send, e.g. `bearer_token_auth`.') },
  'Who may send; without it everybody may who reaches the port.',
  { default: null },
)

/** To be called when the component starts: extensions have started by then. Every refusal is counted. Undefined where everybody may send. */
export function authenticating(
  config: Config<{ auth: typeof auth }>['auth'],
  context: Context,
  transport: string,
): Authenticate | undefined {
  if (!config) return undefined
  const { authenticate } = context.extension<Authenticator>(config.authenticator)
  const refused = (error: unknown): never => {
    if (error instanceof Unauthenticated) context.count('receiver_unauthenticated_requests', 1, { transport })
    throw error
  }
  return (header) => {
    try {
      return authenticate(header)?.catch(refused)
    } catch (error) {
      return refused(error)
    }
  }
}
