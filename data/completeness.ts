// Whether the record of a call is whole enough to train on. Everything that is missing, cut or hidden becomes a
// flag; a call that would teach the policy from a prompt it never saw is unfit.

import type { Flag, Message, Part } from './dialect.ts'
import { textEnd, textEndsWith, textIncludes, textOfPart, textSize } from './held_text.ts'
import { asksTools, textIn, toolCallsIn, toolResultsIn } from './messages.ts'
import type { Call } from './rollout.ts'
import { isCut, isRedacted, LONGEST_PLACEHOLDER, MARK_BEGINS } from './values.ts'

/** Bytes of a text in which a mark of its cutting stands. */
const LONGEST_MARK = 240
const NO_PROMPT = 'the prompt was not recorded (is content capture on?)'

/** Why a call cannot be a transition: causes before what they cause. Token ids of prompt and response make all of it unimportant. */
const REASONS: readonly (readonly [Flag, string])[] = [
  ['truncated', 'a value is no whole JSON: cut by a length limit (OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT, or the framework’s own)'],
  ['droppedAttributes', 'the SDK dropped attributes of the span (raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)'],
  ['contentMissing', NO_PROMPT],
  ['outputMissing', 'the completion was not recorded (is content capture on?)'],
  ['redacted', 'a placeholder stands where text was hidden'],
  ['historyIncomplete', 'the prompt lacks turns that the model saw'],
  ['promptContainedOutput', 'the recorded prompt held its own answer'],
]

export function unfit(call: Call): { reason: Flag; detail: string } | null {
  if (call.tokens && call.tokens.prompt.length > 0 && call.tokens.response.length > 0) return null
  const found = REASONS.find(([flag]) => call.flags.includes(flag))
  if (found) return { reason: found[0], detail: found[1] }
  // With content capture off the messages may still come, as shells that hold nothing but ids.
  return call.prompt.some(hasContent) ? null : { reason: 'contentMissing', detail: NO_PROMPT }
}

/** @param calls by start time @param agentOf the agent that a call belongs to, by node */
export function checkCompleteness(calls: readonly Call[], agentOf: (call: Call) => number): Call[] {
  const used = new Set<string | undefined>([undefined])
  const checked = calls.map((call) => {
    if (!asksTools(call.completion)) return checkAlone(call, [])
    const ids = toolCallsIn(call.completion).map((part) => part.id)
    const own = ids.filter((id) => !used.has(id))
    for (const id of ids) used.add(id)
    return checkAlone(call, own)
  })
  return flagLostHistory(checked, agentOf)
}

/** @param ownIds tool calls that this completion was the first to make: some servers use ids again in each turn */
function checkAlone(call: Call, ownIds: readonly (string | undefined)[]): Call {
  const { completion } = call
  const prompt = beforeOwnAnswer(call, ownIds)
  const found: Flag[] = []
  if (prompt !== call.prompt) found.push('promptContainedOutput')
  if (prompt.length === 0) found.push('contentMissing')
  if (!completion?.parts.some(saysSomething)) found.push('outputMissing')
  if (prompt.some(hasCut) || (completion && hasCut(completion))) found.push('truncated')
  if (prompt.some(hasHidden) || (completion && hasHidden(completion))) found.push('redacted')
  if (prompt.some(lacksIds) || (completion && lacksIds(completion))) found.push('callIdsMissing')
  if (isReact(completion)) found.push('reactText')
  if (answersLackCalls(prompt)) found.push('historyIncomplete')
  const added = found.filter((flag) => !call.flags.includes(flag))
  return prompt === call.prompt && added.length === 0 ? call : { ...call, prompt, flags: [...call.flags, ...added].sort() }
}

const hasCut = ({ parts }: Message): boolean => parts.some(isCutPart)

const hasHidden = ({ parts }: Message): boolean => parts.some(isHidden)
const lacksIds = ({ parts }: Message): boolean => parts.some(lacksId)

/** A tool call in prose, as CrewAI and other ReAct prompts have it. Most texts lack its last words, which are found at once. */
function isReact(completion: Message | undefined): boolean {
  if (!completion?.parts.some((part) => textIncludes(part, 'Action Input:'))) return false
  return toolCallsIn(completion).length === 0 && REACT.test(textIn(completion))
}
const REACT = /^\s*Action:\s*\S.*\n+\s*Action Input:/m

const hasContent = ({ parts }: Message): boolean => parts.some((part) => textSize(part) > 0)

const saysSomething = (part: Part): boolean => part.kind === 'tool_call' || textSize(part) > 0

/** Asked of every text: only what may be hidden is read for it. */
const isHidden = (part: Part): boolean =>
  part.kind !== 'media' && (textSize(part) <= LONGEST_PLACEHOLDER || textIncludes(part, MARK_BEGINS)) && isRedacted(textOfPart(part))

/** Asked of every text, and most end otherwise. */
const isCutPart = (part: Part): boolean => part.kind !== 'media' && textEndsWith(part, ']') && isCut(textEnd(part, LONGEST_MARK))

const lacksId = (part: Part): boolean => (part.kind === 'tool_call' || part.kind === 'tool_result') && part.id === undefined

/** Some recorders serialise the message list late, when the agent has already added the answer to it. */
function beforeOwnAnswer({ prompt, completion }: Call, ownIds: readonly (string | undefined)[]): readonly Message[] {
  const own = ownIds.length === 0 ? -1 : prompt.findIndex((message) => toolCallsIn(message).some((part) => ownIds.includes(part.id)))
  if (own !== -1) return prompt.slice(0, own)
  const last = prompt.at(-1)
  if (last?.role !== 'assistant') return prompt
  const text = textIn(completion).trim()
  return text !== '' && textIn(last).trim() === text ? prompt.slice(0, -1) : prompt
}

const tellsOfTools = ({ parts }: Message): boolean => parts.some(({ kind }) => kind === 'tool_call' || kind === 'tool_result')

/** A tool's answer to a call that the prompt does not hold, or calls that nobody answered at all. */
function answersLackCalls(prompt: readonly Message[]): boolean {
  if (!prompt.some(tellsOfTools)) return false
  const asked = prompt.flatMap(toolCallsIn)
  const answered = prompt.flatMap(toolResultsIn)
  if (asked.length > 0 && answered.length === 0) return true
  const ids = new Set(asked.map((part) => part.id))
  return !ids.has(undefined) && answered.some((part) => part.id !== undefined && !ids.has(part.id))
}

/**
 * A call that sends the same prompt as an earlier call of its agent, although that one went on to ask for tools
 * and the model now counts more tokens: the conversation lives on the server, and was not recorded.
 */
function flagLostHistory(calls: readonly Call[], agentOf: (call: Call) => number): Call[] {
  const asking = new Map<string, Call>()
  return calls.map((call) => {
    if (call.prompt.length === 0 || call.prompt.some(({ role }) => role === 'tool')) return call
    const asks = asksTools(call.completion)
    if (!asks && asking.size === 0) return call
    const key = `${agentOf(call)} ${outline(call.prompt)}`
    const earlier = asking.get(key)
    if (asks && !earlier) asking.set(key, call)
    const lost = earlier !== undefined && earlier.end_time <= call.start_time && grew(earlier, call) && samePrompt(earlier, call)
    return lost && !call.flags.includes('historyIncomplete')
      ? { ...call, flags: [...call.flags, 'historyIncomplete' as const].sort() }
      : call
  })
}

/** Equal for equal prompts, and cheap. */
const outline = (prompt: readonly Message[]): string => prompt.map(({ role, parts }) => role + parts.map(textSize).join()).join()

const samePrompt = (a: Call, b: Call): boolean => JSON.stringify(a.prompt) === JSON.stringify(b.prompt)

function grew(earlier: Call, later: Call): boolean {
  const [before, now] = [earlier.usage?.input, later.usage?.input]
  return before === undefined || now === undefined || now > before
}
