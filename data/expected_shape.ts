// A reading in the words of test/fixtures/spans/expected.json, for `leyden explain --format json` and the tests.

import type { Message } from './dialect.ts'
import { textIn, toolCallsIn } from './messages.ts'
import type { ReadResult } from './reading.ts'
import type { Call } from './rollout.ts'
import { decode, jsonOf } from './values.ts'

const TEXT_SHOWN = 80

export function expectedShape(result: ReadResult) {
  const tools = result.tools.map((tool) => ({
    name: tool.name ?? null,
    callId: tool.call_id ?? null,
    status: tool.verdict.status,
    evidence: tool.verdict.evidence,
    inferred: tool.inferred,
  }))
  return {
    llmCalls: result.calls.map(callShape),
    tools: tools.sort((a, b) => ((a.callId ?? '') < (b.callId ?? '') ? -1 : (a.callId ?? '') > (b.callId ?? '') ? 1 : 0)),
    rewards: result.rewards.map(({ dimensions, dialect }) => ({
      dims: dimensions.filter(({ value }) => value !== null).map(({ name, value }) => `${name}=${value}`),
      dialect,
    })),
    duplicates: result.duplicates,
    spans: result.spans,
    traces: result.traces,
  }
}

function callShape(call: Call) {
  return {
    model: call.model,
    responseId: call.response_id ?? null,
    promptMessages: call.prompt.length,
    promptRoles: call.prompt.map(({ role }) => role).join(','),
    toolCalls: toolCallsShown(call.completion),
    text: [...textIn(call.completion).trim()].slice(0, TEXT_SHOWN).join(''),
    finish: call.finish ?? null,
    usage: [call.usage?.input ?? null, call.usage?.output ?? null],
    tokenIds: [call.tokens?.prompt.length ?? 0, call.tokens?.response.length ?? 0],
    logprobs: call.tokens?.logprobs.length ?? 0,
    agent: call.agent ?? null,
    session: call.session ?? null,
    rollout: call.rollout_id ?? null,
    flags: [...call.flags].sort(),
  }
}

/** `name(arguments as compact JSON)#call id`. */
export const toolCallsShown = (message: Message | undefined): string[] =>
  toolCallsIn(message).map((part) => `${part.name}(${jsonOf(decode(part.arguments).value) ?? part.arguments})#${part.id ?? '-'}`)
