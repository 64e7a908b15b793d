// What a base policy learns to imitate.

export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly content: string
}

export interface Demonstration {
  readonly messages: readonly Message[]
  /** What the assistant says then, as the policy writes it: a tool call in its tags. */
  readonly reply: string
}
