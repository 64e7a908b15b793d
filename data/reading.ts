// From the spans and log records of one rollout to calls, tools, agents and rewards: each item is read by the first
// dialect that knows it, parts join their calls, duplicates are merged, what is missing is flagged, tools are
// reconciled, rewards find what they are about. Every step is linear, and none recurses into the tree.

import { checkCompleteness } from './completeness.ts'
import type { CallReading, Dialect, Flag, Message, Reading, ToolReading } from './dialect.ts'
import { mergeDuplicates } from './duplicates.ts'
import type { Stranger } from './item_reader.ts'
import { compare, distinctItems, placeOf, remainsOf, type Found, type Remains } from './items.ts'
import { lineageOf, type Lineage } from './lineage.ts'
import { completeCall, completeTool, groupParts } from './parts.ts'
import { readRewards, type Carrier } from './reward_reading.ts'
import type { Agent, Call, Place, Problem, Reward, Tool } from './rollout.ts'
import { hintOfItem, splitKey } from './routing.ts'
import { messageSharer } from './share_messages.ts'
import { askerFor } from './signs.ts'
import type { Item, LogRecord } from './span.ts'
import { spanTable, type SpanTable } from './span_table.ts'
import { mergeExecutions, reconcileTools } from './tools.ts'
import { buildTree, type SpanTree } from './tree.ts'

export interface ReadResult {
  /** By start time. */
  readonly calls: readonly Call[]
  readonly tools: readonly Tool[]
  readonly agents: readonly Agent[]
  /** In the order in which they were given. */
  readonly rewards: readonly Reward[]
  readonly tree: SpanTree
  readonly problems: readonly Problem[]
  /** Model calls that were another record of a call already counted. */
  readonly duplicates: number
  /** Distinct spans, and log records outside of them that say something; and the traces of both. */
  readonly spans: number
  readonly traces: number
}

/**
 * @param items in any order. In an array a span may come twice, and what its copies say is joined; of whatever else gives items the first
 * counts, and what was read of a span is let go before the next is asked for: of a huge rollout only what was found in it is held.
 * @param note is shown each item that counts
 */
export function readItems(
  items: Iterable<Item | Stranger>,
  dialects: readonly Dialect[],
  note: (item: Item | Stranger) => void = () => {},
): ReadResult {
  const problems: Problem[] = []
  const distinct = Array.isArray(items) ? distinctItems(items as readonly Item[]) : items
  const { table, found, carriers, logs } = seeAll(distinct, dialects, note, problems)
  const order = table.byTime()
  const nodes = placesIn(order)
  const tree = buildTree(table, order, nodes)
  if (tree.cycles > 0) problems.push({ reason: 'parent_cycle', span_id: '', detail: `${tree.cycles} parent links were cut` })
  const nodeOf = (trace_id: string, span_id: string) => nodes[table.findText(trace_id, span_id)] ?? -1

  const readings = new Array<Reading | null>(tree.count).fill(null)
  for (const one of found) {
    one.node = nodes[one.node]!
    readings[one.node] = one.reading
  }
  for (const one of carriers) one.node = nodes[one.node]!
  found.sort(byNode)
  carriers.sort(byNode)
  for (const item of logs) {
    const read = readItem(item, dialects, problems)
    if (read) found.push({ item, node: nodeOf(item.trace_id, item.span_id), ...read })
  }
  const lineage = lineageOf(tree, readings)
  const agentOf = ({ node }: Place) => (node === -1 ? -1 : lineage.agent[node]!)

  const ownerOf = (trace_id: string, span_id: string) => callAround(nodeOf(trace_id, span_id), readings, lineage)

  const { calls: recorded, tools: ran, agents } = collect(found, ownerOf, lineage, problems)
  const { calls: distinctCalls, duplicates } = mergeDuplicates(recorded, lineage.call)
  const calls = checkCompleteness(distinctCalls, agentOf)
  const tools = reconcileTools(calls, mergeExecutions(ran, lineage.tool, agentOf), agentOf)
  const rewards = readRewards({ carriers, logs, calls, nodeOf, nodeAnywhere: anywhere(table, order), lineage, problems }, dialects)
  const outside = found.filter(({ item, node }) => item.signal === 'log' && node === -1).map(({ item }) => item)
  return {
    ...{ calls, tools, agents, rewards, tree, problems, duplicates },
    spans: tree.count + outside.length,
    traces: new Set([...table.traces, ...outside.map(({ trace_id }) => trace_id)]).size,
  }
}

/** The place of each number in the list. */
function placesIn(order: Uint32Array): Uint32Array {
  const places = new Uint32Array(order.length)
  for (let i = 0; i < order.length; i++) places[order[i]!] = i
  return places
}

/** Finds the node of a span in whatever trace it is: asked of few. */
function anywhere(table: SpanTable, order: Uint32Array): (span_id: string) => number {
  let known: Map<string, number> | undefined
  return (span_id) => {
    known ??= new Map(Array.from(order, (number, node) => [table.idOf(number), node]))
    return known.get(span_id) ?? -1
  }
}

/** Where it stands becomes known when all are seen: until then `node` is the span's number in the table. */
type Placed<T> = Omit<T, 'node'> & { node: number }

const byNode = (a: Placed<unknown>, b: Placed<unknown>): number => a.node - b.node

/** Every span in its place, those that say something read; and log records by time: those of one moment keep their order, which is that of a conversation. */
function seeAll(
  items: Iterable<Item | Stranger>,
  dialects: readonly Dialect[],
  note: (item: Item | Stranger) => void,
  problems: Problem[],
): { table: SpanTable; found: Placed<Found>[]; carriers: Placed<Carrier>[]; logs: LogRecord[] } {
  const ask = askerFor(dialects)
  const share = messageSharer()
  const table = spanTable()
  const found: Placed<Found>[] = []
  const carriers: Placed<Carrier>[] = []
  const logs: LogRecord[] = []
  for (const item of items) {
    if (item.signal === 'log') {
      note(item)
      logs.push(item)
      continue
    }
    const number = table.add(item.signal === 'span' ? item : item.payload)
    if (number === -1) continue
    note(item)
    if (item.signal !== 'span') continue
    const asked = ask(item)
    const read = readItem(item, asked.readers, problems)
    if (read) found.push({ item: remainsOf(item), node: number, dialect: read.dialect, reading: shared(read.reading, share) })
    if (asked.carriers.length > 0) carriers.push({ span: item, node: number, dialects: asked.carriers })
  }
  return { table, found, carriers, logs: logs.sort((a, b) => compare(a.time, b.time)) }
}

/** With its messages shared: of a run of many turns each is held once. */
function shared(reading: Reading, share: (message: Message) => Message): Reading {
  if (reading.kind !== 'call') return reading
  const { prompt, completion } = reading
  return { ...reading, prompt: prompt.map(share), completion: completion && share(completion) }
}

/** One malformed span costs one span. */
function readItem(item: Item, dialects: readonly Dialect[], problems: Problem[]): Pick<Found, 'dialect' | 'reading'> | null {
  const dialect = dialects.find(({ matches }) => matches(item))
  if (!dialect) return null
  try {
    const reading = dialect.read(item)
    return reading && { dialect: dialect.name, reading }
  } catch (error) {
    problems.push({ reason: 'unreadable_span', span_id: item.span_id, detail: `${dialect.name}: ${(error as Error).message}` })
    return null
  }
}

/** A server's part of a call may stand below spans of transport: it then belongs to the call around them, but never to one of another agent. */
function callAround(node: number, readings: readonly (Reading | null)[], { call, tool, agent }: Lineage): number {
  const kind = node === -1 ? undefined : readings[node]?.kind
  const above = node === -1 ? -1 : call[node]!
  if (above === -1 || kind === 'call' || kind === 'tool' || kind === 'agent') return node
  return tool[above] === tool[node] && agent[above] === agent[node] ? above : node
}

/** Calls, tools and agents at their places, each with its parts; all by start time. */
function collect(
  found: readonly Found[],
  ownerOf: (trace_id: string, span_id: string) => number,
  lineage: Lineage,
  problems: Problem[],
): { calls: Call[]; tools: Tool[]; agents: Agent[] } {
  const calls: Call[] = []
  const tools: Tool[] = []
  const agents: Agent[] = []
  const { parts, lost } = groupParts(found, ownerOf)
  for (const { item, node, dialect, reading } of found) {
    if (reading.kind !== 'call' && reading.kind !== 'tool' && reading.kind !== 'agent') continue
    const own = (item.signal === 'span' && parts.get(node)) || []
    const at = placeOf(item, node, dialect, lineage)
    const agentAbove = node === -1 ? undefined : lineage.agentName[node]
    if (reading.kind === 'call') calls.push(toCall(item, completeCall(reading, own), at, agentAbove))
    else if (reading.kind === 'tool') tools.push(toTool(completeTool(reading, own), at, agentAbove))
    else agents.push({ ...at, name: reading.name, session: reading.session })
  }
  for (const span_id of new Set(lost.map((part) => part.of))) {
    problems.push({ reason: 'part_without_span', span_id, detail: `what belongs to span ${span_id} came without it` })
  }
  calls.sort((a, b) => compare(a.start_time, b.start_time))
  tools.sort((a, b) => compare(a.start_time, b.start_time))
  return { calls, tools, agents }
}

/** The name of the agent above is trusted; instrumentations write a default on every call. */
function toCall(item: Remains | LogRecord, reading: CallReading, at: Place, agentAbove: string | undefined): Call {
  const flags: Flag[] = [...reading.flags]
  if (item.dropped_attributes > 0) flags.push('droppedAttributes')
  if (item.signal === 'span' && item.end_time === 0n) flags.push('unfinished')
  // Field by field: spreading two objects into one is several times slower, and this is done 100,000 times.
  return {
    span_id: at.span_id,
    parent_span_id: at.parent_span_id,
    trace_id: at.trace_id,
    start_time: at.start_time,
    end_time: at.end_time,
    dialect: at.dialect,
    scope: at.scope,
    node: at.node,
    judged: at.judged,
    sequence_id: at.sequence_id,
    operation: reading.operation,
    model: reading.response_model ?? reading.request_model ?? '',
    request_model: reading.request_model,
    response_model: reading.response_model,
    response_id: reading.response_id,
    endpoint: reading.endpoint,
    prompt: reading.prompt,
    completion: reading.completion,
    tools: reading.tools,
    params: reading.params,
    finish: reading.finish,
    usage: reading.usage,
    tokens: reading.tokens,
    policy_version: reading.policy_version,
    agent: agentAbove ?? reading.agent,
    session: reading.session,
    flags,
    merged_span_ids: [],
    rollout_id: splitKey(hintOfItem(item, 'trace')).rollout_id || undefined,
  }
}

const toTool = (reading: ToolReading, at: Place, agentAbove: string | undefined): Tool => ({
  span_id: at.span_id,
  parent_span_id: at.parent_span_id,
  trace_id: at.trace_id,
  start_time: at.start_time,
  end_time: at.end_time,
  dialect: at.dialect,
  scope: at.scope,
  node: at.node,
  judged: at.judged,
  sequence_id: at.sequence_id,
  name: reading.name,
  call_id: reading.call_id,
  arguments: reading.arguments,
  result: reading.result,
  verdict: reading.verdict,
  agent: agentAbove ?? reading.agent,
  inferred: false,
  requested_by: '',
  // Here already: a copy that gets further fields takes many times as long as one whose fields get other values.
  air_class: undefined,
  air_rule: undefined,
})
