// Tools are seen from three sides: what a completion asked for, what ran in a span, and what the next prompt
// says came back. Here the three are joined, and the verdict is taken from the strongest evidence. A tool
// without a span is inferred; one that nothing is known of stays unknown, and earns nothing.

import type { Verdict } from './dialect.ts'
import { asksTools, toolCallsIn, type ToolCall, type ToolResult } from './messages.ts'
import type { Call, Tool } from './rollout.ts'
import { argumentsKey, valuesKey } from './tool_values.ts'
import { fillGaps, isConcealed } from './values.ts'
import { judgeResult } from './verdict.ts'

/** Hand-offs and output functions are no tools. */
const NOT_TOOLS = /^(transfer_to_|handoff|final_result)/i

/** A tool call in a completion, and what was found to belong to it. */
interface Request {
  readonly call: Call
  readonly part: ToolCall
  tool?: Tool
  report?: ToolResult
}

/** The agent that a call or tool belongs to, by node. */
type AgentOf = (place: Call | Tool) => number

/** @param calls by start time @param ran what has a span of its own, by start time */
export function reconcileTools(calls: readonly Call[], ran: readonly Tool[], agentOf: AgentOf): Tool[] {
  const requests = calls.filter(({ completion }) => asksTools(completion)).flatMap(requestsOf)
  const executed = ran.filter((tool) => !NOT_TOOLS.test(tool.name ?? ''))
  const owners = match(requests, executed, agentOf)
  const strangers = readReports(calls, requests)
  const known = recognise(
    strangers,
    executed.filter((tool) => !owners.has(tool)),
  )
  return [
    ...(owners.size + known.size === 0
      ? executed
      : executed.map((tool) => (known.has(tool) ? settle(tool, known.get(tool), '') : settle(tool, owners.get(tool))))),
    ...requests.filter(({ tool }) => !tool).map(({ call, part, report }) => infer(call, part, report, call.span_id)),
    ...strangers.filter(({ tool }) => !tool).map(({ call, part, report }) => infer(call, part, report, '')),
  ].sort((a, b) => (a.start_time < b.start_time ? -1 : a.start_time > b.start_time ? 1 : 0))
}

const requestsOf = (call: Call): Request[] =>
  toolCallsIn(call.completion)
    .filter((part) => !NOT_TOOLS.test(part.name))
    .map((part) => ({ call, part }))

/** Which request each execution answers: by id, else by name and arguments, else by name; within its own agent first. */
function match(requests: readonly Request[], tools: readonly Tool[], agentOf: AgentOf): Map<Tool, Request> {
  const owners = new Map<Tool, Request>()
  if (requests.length === 0) return owners
  const byId = new Map(requests.map((request) => [request.part.id, request]))
  const known = (tool: Tool) => tool.call_id !== undefined && byId.has(tool.call_id)
  const take = (tool: Tool, request: Request) => {
    owners.set(tool, request)
    request.tool ??= tool
  }

  const withId = tools.filter(known)
  const asked = ({ part }: Request) => part.id
  const answered = ({ call_id }: Tool) => call_id
  for (const [tool, request] of pair(requests, withId, asked, answered)) take(tool, request)
  // A second try of the same call, or a clock that is behind.
  for (const tool of withId) if (!owners.has(tool)) take(tool, byId.get(tool.call_id)!)

  const agent = (place: Call | Tool) => `${agentOf(place)}\0`
  const anyone = () => ''
  for (const exact of [argumentsKey, valuesKey, () => '']) {
    for (const scope of [agent, anyone]) {
      const left = tools.filter((tool) => !owners.has(tool) && !known(tool))
      if (left.length === 0 || requests.every(({ tool }) => tool)) return owners
      const requestKey = ({ call, part }: Request) => `${scope(call)}${part.name}\0${exact(part.arguments)}`
      const toolKey = (tool: Tool) => `${scope(tool)}${tool.name}\0${exact(tool.arguments ?? '')}`
      for (const [tool, request] of pair(requests, left, requestKey, toolKey)) take(tool, request)
    }
  }
  // LlamaIndex's spans do not say which tool ran: only their order is left.
  const nameless = tools.filter((tool) => !owners.has(tool) && tool.name === undefined)
  for (const [tool, request] of pair(requests, nameless, ({ call }) => agent(call), agent)) take(tool, request)
  return owners
}

/**
 * Pairs each tool with the latest open request of its key that was made before it; of several in one completion
 * with the first. Both lists are in time order, so that one sweep is enough.
 */
function pair(
  requests: readonly Request[],
  tools: readonly Tool[],
  requestKey: (request: Request) => string | undefined,
  toolKey: (tool: Tool) => string | undefined,
): [Tool, Request][] {
  const open = requests.filter(({ tool }) => !tool)
  const waiting = new Map<string | undefined, Request[]>()
  const pairs: [Tool, Request][] = []
  let next = 0
  for (const tool of tools) {
    while (next < open.length && open[next]!.call.start_time <= tool.start_time) {
      let end = next
      while (end < open.length && open[end]!.call === open[next]!.call) end++
      for (let i = end - 1; i >= next; i--) {
        const key = requestKey(open[i]!)
        const stack = waiting.get(key)
        if (stack) stack.push(open[i]!)
        else waiting.set(key, [open[i]!])
      }
      next = end
    }
    const request = waiting.get(toolKey(tool))?.pop()
    if (request) pairs.push([tool, request])
  }
  return pairs
}

/** Gives requests what later prompts say came back. Returns what came back without a request in this run, with the call that tells of it. */
function readReports(calls: readonly Call[], requests: readonly Request[]): Request[] {
  if (!calls.some(({ prompt }) => prompt.some(({ role }) => role === 'tool'))) return []
  const made = new Map<string, Request>()
  const strangers = new Map<string, Request>()
  let next = 0
  for (const call of calls) {
    // The newest first: where ids are used again, the newest answer is that of the newest request.
    for (const { part, result } of answersIn(call).reverse()) {
      const request = (part && made.get(fullKey(part))) ?? made.get(idKey(result.id))
      if (request) request.report ??= result
      else if (part && !NOT_TOOLS.test(part.name) && !strangers.has(fullKey(part)))
        strangers.set(fullKey(part), { call, part, report: result })
    }
    for (; requests[next]?.call === call; next++) {
      const request = requests[next]!
      made.set(fullKey(request.part), request)
      if (request.part.id !== undefined) made.set(idKey(request.part.id), request)
    }
  }
  return [...strangers.values()]
}

const fullKey = (part: ToolCall) => `${part.id ?? ''}\0${part.name}\0${argumentsKey(part.arguments)}`
const idKey = (id: string | undefined) => `${id}`

/** The tool results of a prompt with the calls they answer: by id, else in order. */
function answersIn({ prompt }: Call): { part: ToolCall | undefined; result: ToolResult }[] {
  const answers: { part: ToolCall | undefined; result: ToolResult }[] = []
  const byId = new Map<string, ToolCall>()
  const inOrder: ToolCall[] = []
  for (const { parts } of prompt) {
    for (const part of parts) {
      if (part.kind === 'tool_call' && part.id !== undefined) byId.set(part.id, part)
      else if (part.kind === 'tool_call') inOrder.push(part)
      else if (part.kind === 'tool_result')
        answers.push({ part: part.id === undefined ? inOrder.shift() : byId.get(part.id), result: part })
    }
  }
  return answers
}

/** Which execution each of them tells of, where the completion that asked for it was not recorded. */
function recognise(strangers: readonly Request[], tools: readonly Tool[]): Map<Tool, Request> {
  const known = new Map<Tool, Request>()
  if (strangers.length === 0) return known
  const waiting = new Map<string, Tool[]>()
  for (const tool of tools) {
    const key = tool.call_id === undefined ? `${tool.name}\0${valuesKey(tool.arguments ?? '')}` : idKey(tool.call_id)
    const same = waiting.get(key)
    if (same) same.push(tool)
    else waiting.set(key, [tool])
  }
  for (const stranger of strangers) {
    const { name, id, arguments: written } = stranger.part
    // A span may hold nothing but its name.
    const keys = [idKey(id), ...[written, ''].map((text) => `${name}\0${valuesKey(text)}`)]
    const tool = keys
      .map((key) => waiting.get(key))
      .find((same) => same?.length)
      ?.shift()
    if (tool) known.set((stranger.tool = tool), stranger)
  }
  return known
}

function settle(tool: Tool, request: Request | undefined, requestedBy = request?.call.span_id ?? ''): Tool {
  const verdict = strongest(tool.verdict, request?.report)
  if (!request) return verdict === tool.verdict ? tool : { ...tool, verdict }
  return {
    ...tool,
    name: tool.name ?? request.part.name,
    call_id: tool.call_id ?? request.part.id,
    arguments: tool.arguments ?? request.part.arguments,
    result: tool.result ?? request.report?.text,
    verdict,
    requested_by: requestedBy,
  }
}

/** That a span says OK or has a result is weak: a tool message that is an error overturns it. */
function strongest(verdict: Verdict, report: ToolResult | undefined): Verdict {
  const told = report && judgeReport(report)
  if (!told || told.status === 'unknown') return verdict
  const weak = verdict.evidence === 'status OK' || verdict.evidence === 'has result'
  return verdict.status === 'unknown' || (weak && told.status === 'error') ? { ...verdict, ...told } : verdict
}

function judgeReport(report: ToolResult): Pick<Verdict, 'status' | 'evidence'> {
  if ((report.text === '' || isConcealed(report.text)) && !report.is_error) return { status: 'unknown', evidence: 'no content' }
  return { status: report.is_error ? 'error' : (judgeResult(report.text)?.status ?? 'ok'), evidence: 'next prompt' }
}

/** A tool without a span stands at the moment when it was asked for, or when it was first told of. */
function infer(call: Call, part: ToolCall, report: ToolResult | undefined, requestedBy: string): Tool {
  const time = requestedBy === '' ? call.start_time : call.end_time
  return {
    span_id: '',
    parent_span_id: call.parent_span_id,
    trace_id: call.trace_id,
    start_time: time,
    end_time: time,
    dialect: call.dialect,
    scope: call.scope,
    node: -1,
    judged: call.judged,
    sequence_id: undefined,
    name: part.name,
    call_id: part.id ?? report?.id,
    arguments: part.arguments,
    result: report?.text,
    verdict: report ? judgeReport(report) : { status: 'unknown', evidence: 'no content' },
    agent: call.agent,
    inferred: true,
    requested_by: requestedBy,
    air_class: undefined,
    air_rule: undefined,
  }
}

/** One execution once: a tool span right inside another of the same name and agent, or two at once for one call id. */
export function mergeExecutions(tools: readonly Tool[], toolAbove: Int32Array, agentOf: AgentOf): Tool[] {
  const kept = new Array<Tool | undefined>(toolAbove.length) // by node
  const nodes: number[] = []
  const byId = new Map<string, Tool>()
  const leader = new Map<number, number>()
  for (const tool of tools) {
    if (tool.node === -1) continue
    const next = toolAbove[tool.node]!
    const above = next === -1 ? undefined : kept[leader.get(next) ?? next]
    const twin = tool.call_id === undefined ? undefined : byId.get(tool.call_id)
    const isInside = above && above.name === tool.name && agentOf(above) === agentOf(tool) && sameId(above, tool)
    const isTwin = twin && twin.trace_id === tool.trace_id && twin.end_time > tool.start_time
    const same = isInside ? above : isTwin ? twin : undefined
    const merged = same ? mergeTwo(kept[same.node]!, tool) : tool
    kept[merged.node] = merged
    if (same) leader.set(tool.node, merged.node)
    else nodes.push(tool.node)
    if (merged.call_id !== undefined) byId.set(merged.call_id, merged)
  }
  return [...nodes.map((node) => kept[node]!), ...tools.filter(({ node }) => node === -1)]
}

const sameId = (a: Tool, b: Tool): boolean => a.call_id === undefined || b.call_id === undefined || a.call_id === b.call_id

function mergeTwo(outer: Tool, inner: Tool): Tool {
  const verdict = inner.verdict.status === 'error' || outer.verdict.status === 'unknown' ? inner.verdict : outer.verdict
  return { ...fillGaps(outer, inner), verdict: outer.verdict.status === 'error' ? outer.verdict : verdict }
}
