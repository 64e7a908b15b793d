// As much of OpenAI's chat completions as leyden/agent reads: it must not load their package.

export interface Client {
  readonly chat: { readonly completions: Completions }
}

export interface Completions {
  create(body: Body, options?: Options): unknown
}

export interface Options {
  headers?: unknown
}

export interface Body {
  readonly model: string
  readonly messages: readonly object[]
  readonly tools?: readonly unknown[]
  readonly stream?: boolean | null
}

/** What `create` returns at once. The client's own promise asks it for the parsed answer, which is a stream where one was asked for. */
export interface Answer {
  asResponse(): Promise<unknown>
  parseResponse(...args: unknown[]): Promise<Completion & Stream>
}

export interface Stream {
  iterator: () => AsyncIterable<Chunk>
}

export interface Completion {
  readonly id?: string
  readonly model?: string
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
  readonly choices: readonly { readonly message: object; readonly finish_reason?: string | null | undefined }[]
}

export interface Chunk extends Omit<Completion, 'choices'> {
  readonly choices: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[]
}

interface Delta {
  readonly content?: string | null
  readonly tool_calls?: readonly { readonly index: number; readonly id?: string; readonly function?: Partial<ToolCall['function']> }[]
}

export interface ToolCall {
  readonly id: string | undefined
  readonly function: { name: string; arguments: string }
}
