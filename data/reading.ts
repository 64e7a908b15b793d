// From the spans and log records of one rollout to calls, tools, agents and rewards: each item is read by the first
// dialect that knows it, parts join their calls, duplicates are merged, what is missing is flagged, tools are
// reconciled, rewards find what they are about. Every step is linear, and none recurses into the tree.

import { checkCompleteness } from './completeness.ts'
import type { CallReading, Dialect, Reading, ToolReading } from './dialect.ts'
import { mergeDuplicates } from './duplicates.ts'
import { compare, distinctSpans, logRecords, placer, spanKey } from './items.ts'
import { lineageOf, type Lineage } from './lineage.ts'
import { completeCall, completeTool, groupParts, type Found } from './parts.ts'
import { readRewards } from './reward_reading.ts'
import type { Agent, Call, Place, Problem, Reward, Tool } from './rollout.ts'
import { hintOfItem, splitKey } from './routing.ts'
import type { Item } from './span.ts'
import { mergeExecutions, reconcileTools } from './tools.ts'
import { buildTree, type SpanTree } from './tree.ts'
import { compact } from './values.ts'

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

/** @param items in any order; a span that comes twice counts once */
export function readItems(items: readonly Item[], dialects: readonly Dialect[]): ReadResult {
  const problems: Problem[] = []
  const spans = distinctSpans(items)
  const logs = logRecords(items)
  const tree = buildTree(spans)
  const nodes = new Map(spans.map((span, node) => [spanKey(span.trace_id, span.span_id), node]))
  const readings: (Reading | null)[] = []
  const found: Found[] = []
  for (const item of [...spans, ...logs]) {
    const read = readItem(item, dialects, problems)
    readings.push(read && read.reading)
    if (read) found.push(read)
  }
  const lineage = lineageOf(tree, readings)
  const place = placer(nodes, lineage)

  const { calls: recorded, tools: ran, agents } = collect(found, nodes, lineage, place, problems)
  const agentOf = ({ node }: Place) => (node === -1 ? -1 : lineage.agent[node]!)
  const { calls: distinct, duplicates } = mergeDuplicates(recorded, lineage.call)
  const calls = checkCompleteness(distinct, agentOf)
  const tools = reconcileTools(calls, mergeExecutions(ran, lineage.tool), agentOf)
  const rewards = readRewards([...spans, ...logs], dialects, { calls, nodes, place, problems })
  const outside = found.filter(({ item }) => item.signal === 'log' && !nodes.has(spanKey(item.trace_id, item.span_id)))
  return {
    ...{ calls, tools, agents, rewards, tree, problems, duplicates },
    spans: spans.length + outside.length,
    traces: new Set([...spans, ...outside.map(({ item }) => item)].map((item) => item.trace_id)).size,
  }
}

/** One malformed span costs one span. */
function readItem(item: Item, dialects: readonly Dialect[], problems: Problem[]): Found | null {
  const dialect = dialects.find(({ matches }) => matches(item))
  if (!dialect) return null
  try {
    const reading = dialect.read(item)
    return reading && { item, dialect: dialect.name, reading }
  } catch (error) {
    problems.push({ reason: 'unreadable_span', span_id: item.span_id, detail: `${dialect.name}: ${(error as Error).message}` })
    return null
  }
}

type Placer = (item: Item, dialect: string) => Place

/** Calls, tools and agents at their places, each with its parts; all by start time. */
function collect(
  found: readonly Found[],
  nodes: ReadonlyMap<string, number>,
  lineage: Lineage,
  place: Placer,
  problems: Problem[],
): { calls: Call[]; tools: Tool[]; agents: Agent[] } {
  const calls: Call[] = []
  const tools: Tool[] = []
  const agents: Agent[] = []
  const parts = groupParts(found)
  for (const { item, dialect, reading } of found) {
    const key = spanKey(item.trace_id, item.span_id)
    const own = (item.signal === 'span' && parts.get(key)) || []
    if (reading.kind !== 'call' && reading.kind !== 'tool' && reading.kind !== 'agent') continue
    const at = place(item, dialect)
    const agentAbove = lineage.agentName[nodes.get(key) ?? -1]
    if (reading.kind === 'call') calls.push(toCall(item, completeCall(reading, own), at, agentAbove))
    else if (reading.kind === 'tool') tools.push(toTool(completeTool(reading, own), at, agentAbove))
    else agents.push({ ...at, ...compact({ name: reading.name, session: reading.session }) })
    parts.delete(key)
  }
  for (const key of parts.keys()) {
    const span_id = key.slice(key.indexOf('\0') + 1)
    problems.push({
      reason: 'part_without_owner',
      span_id,
      detail: `something completes span ${span_id}, which is no call or tool of this rollout`,
    })
  }
  calls.sort((a, b) => compare(a.start_time, b.start_time))
  tools.sort((a, b) => compare(a.start_time, b.start_time))
  return { calls, tools, agents }
}

/** The name of the agent above is trusted; instrumentations write a default on every call. */
function toCall(item: Item, { kind: _, ...reading }: CallReading, at: Place, agentAbove: string | undefined): Call {
  const flags = [...reading.flags]
  if (item.dropped_attributes > 0) flags.push('droppedAttributes')
  if (item.signal === 'span' && item.end_time === 0n) flags.push('unfinished')
  return compact<Call>({
    ...reading,
    ...at,
    model: reading.response_model ?? reading.request_model ?? '',
    agent: agentAbove ?? reading.agent,
    flags,
    merged_span_ids: [],
    rollout_id: splitKey(hintOfItem(item, 'trace')).rollout_id || undefined,
  })
}

const toTool = ({ kind: _, ...reading }: ToolReading, at: Place, agentAbove: string | undefined): Tool =>
  compact<Tool>({ ...reading, ...at, agent: agentAbove ?? reading.agent, inferred: false, requested_by: '' })
