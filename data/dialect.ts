// What a dialect says about one span or log record. A dialect is one way in which frameworks
// write the facts of an agent's run; dialects/ has one file per way. What a span does not say is
// absent or undefined, so that a dialect can write down what it looked for as it finds it.

import type { Item } from './span.ts'

export interface Dialect {
  /** Kebab-case, as in docs and in `leyden explain`. */
  readonly name: string
  /** Where a span that matches shows it: of one without any of these nobody asks. Log records are always asked. */
  readonly signs: Signs
  /** True when this span or record is written in this dialect. Attribute keys decide first, then the span's name, then its scope. */
  matches(item: Item): boolean
  /** What it is. `null`: nothing that matters here. Never throws on malformed values: it returns what it could read, with flags. */
  read(item: Item): Reading | null
  /** Scores that any span or record may carry in this dialect's way, whichever dialect says what the item is. */
  rewards?(item: Item): readonly RewardReading[]
  /** Where a span that carries scores shows it. */
  readonly rewardSigns?: Signs
}

/** Any one of them is a sign. */
export interface Signs {
  /** Keys of attributes; one that ends with a dot stands for all that begin with it. */
  readonly keys?: readonly string[]
  /** The span's name, its scope's, and those of its events. */
  readonly names?: RegExp
  readonly scopes?: RegExp
  readonly events?: RegExp
}

export type Reading =
  | CallReading
  | ToolReading
  | AgentReading
  | PartReading
  | { readonly kind: 'chain' }
  /** A judge, guardrail, evaluator or reward function: calls below it are never a policy's, tools below it never earn. */
  | { readonly kind: 'evaluator'; readonly name?: string | undefined }

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'tool_call'; readonly id?: string | undefined; readonly name: string; /** JSON text. */ readonly arguments: string }
  | {
      readonly kind: 'tool_result'
      readonly id?: string | undefined
      readonly name?: string | undefined
      readonly text: string
      readonly is_error?: boolean | undefined
    }
  | { readonly kind: 'media'; readonly mime?: string | undefined; readonly reference?: string | undefined }

export interface Message {
  readonly role: 'system' | 'user' | 'assistant' | 'tool'
  readonly parts: readonly Part[]
  readonly name?: string | undefined
}

export interface Usage {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly cache_read?: number | undefined
  readonly reasoning?: number | undefined
}

export interface Tokens {
  readonly prompt: readonly number[]
  readonly response: readonly number[]
  /** NaN: the token was forced on the policy, by a form that the answer had to have. */
  readonly logprobs: readonly number[]
  /** engine: drawn by Leyden's own decoder, and logprobs are of the distribution that was drawn from; what others mean by theirs is not known. */
  readonly source: 'engine' | 'attribute' | 'raw_body'
}

export type Flag =
  | 'contentMissing'
  | 'outputMissing'
  | 'truncated'
  | 'redacted'
  | 'droppedAttributes'
  | 'historyIncomplete'
  | 'promptContainedOutput'
  | 'inputFromRaw'
  | 'actionRecovered'
  | 'callIdsMissing'
  | 'reactText'
  /** The span was never ended. */
  | 'unfinished'

export interface CallReading {
  readonly kind: 'call'
  /** chat, generate_content, text_completion … */
  readonly operation: string
  readonly request_model?: string | undefined
  readonly response_model?: string | undefined
  readonly response_id?: string | undefined
  /** Host (and port) of the model server. */
  readonly endpoint?: string | undefined
  readonly prompt: readonly Message[]
  readonly completion?: Message | undefined
  readonly tools?: readonly unknown[] | undefined
  readonly params?: Readonly<Record<string, unknown>> | undefined
  readonly finish?: string | undefined
  readonly usage?: Usage | undefined
  readonly tokens?: Tokens | undefined
  /** The policy's version that answered, where the engine says so. */
  readonly policy_version?: number | undefined
  readonly agent?: string | undefined
  readonly session?: string | undefined
  readonly flags: readonly Flag[]
}

export interface ToolReading {
  readonly kind: 'tool'
  readonly name?: string | undefined
  readonly call_id?: string | undefined
  readonly arguments?: string | undefined
  readonly result?: string | undefined
  readonly verdict: Verdict
  readonly agent?: string | undefined
}

/** What a tool's own span says about how it went, and what that rests on (fixtures/spans/README: Evidence). */
export interface Verdict {
  readonly status: 'ok' | 'error' | 'unknown'
  readonly evidence: string
  /** error.type or the exception's type. */
  readonly error_type?: string | undefined
  /** http.response.status_code, rpc.grpc.status_code, process.exit.code. */
  readonly http_status?: number | undefined
  readonly grpc_status?: number | undefined
  readonly exit_code?: number | undefined
}

export interface AgentReading {
  readonly kind: 'agent'
  readonly name?: string | undefined
  readonly session?: string | undefined
}

export interface RewardReading {
  /** None where the carrier gave no score at all; `problem` then says why. */
  readonly dimensions: readonly RewardDimension[]
  /** Name of the dimension that the carrier itself calls the primary one. */
  readonly primary?: string | undefined
  readonly problem?: string | undefined
  readonly source: 'environment' | 'human' | 'judge'
  readonly annotator?: string | undefined
  /** As its giver numbered it: said again under the same id, it replaces what was said before. */
  readonly id?: string | undefined
  /** Verified: it stands, whatever others say. */
  readonly override?: boolean | undefined
  /** What the reward is about, where the carrier says so; else the span's place in the tree decides. */
  readonly target?: Target | undefined
}

export interface Target {
  readonly span_id?: string | undefined
  readonly trace_id?: string | undefined
  readonly response_id?: string | undefined
  readonly session?: string | undefined
  readonly rollout_id?: string | undefined
}

export interface RewardDimension {
  readonly name: string
  /** Null where the carrier held no usable number; `problem` then says what it held. */
  readonly value: number | null
  readonly label?: string | undefined
  readonly problem?: string | undefined
}

/** Belongs to another reading: content events of a call, a server's own span, an AgentOps tool_call span. */
export interface PartReading {
  readonly kind: 'part'
  /** The span it completes: the parent, or the span a log record was written in. */
  readonly of: string
  /** What it adds; holes of the owner are filled from it. */
  readonly call?: Partial<CallReading> | undefined
  readonly tool?: Partial<ToolReading> | undefined
  /** More messages of the prompt, in order. */
  readonly messages?: readonly Message[] | undefined
  /** One more part of the completion, in order. */
  readonly action?: Part | undefined
}
