// A run as `leyden explain` tells it: in words, and in the shape of test/fixtures/spans/expected.json.

import type { Dialect } from '../data/dialect.ts'
import { expectedShape, toolCallsShown } from '../data/expected_shape.ts'
import { textIn } from '../data/messages.ts'
import { readItems } from '../data/reading.ts'
import type { Call, Reject, Rollout, Tool, Transition } from '../data/rollout.ts'
import type { Item } from '../data/span.ts'
import { dialects } from '../dialects/index.ts'

const SHOWN = 100

export function explanationJson(items: readonly Item[], rollout: Rollout): string {
  const shape = expectedShape(readItems(items, dialects))
  const transitions = rollout.transitions.map(({ call: _, ...transition }) => transition)
  return `${JSON.stringify({ ...shape, transitions, rejects: rollout.rejects }, null, 1)}\n`
}

export function explanationText(items: readonly Item[], rollout: Rollout): string {
  const { calls, tools, rewards, problems } = rollout
  const steps = new Map(rollout.transitions.map((transition) => [transition.span_id, transition]))
  const rejects = new Map(rollout.rejects.map((reject) => [reject.span_id, reject]))
  const numbers = new Map(calls.map(({ span_id }, i) => [span_id, i + 1]))
  const sections = [
    headline(rollout),
    ...calls.map((call, i) => callLines(call, i + 1, steps.get(call.span_id), rejects.get(call.span_id))),
    section(
      'Tools',
      tools.map((tool) => toolLine(tool, numbers.get(tool.requested_by))),
    ),
    section(
      'Rewards',
      rewards.map(
        ({ dimensions, dialect, source }) =>
          `${dimensions.map(({ name, value }) => `${name}=${value}`).join(', ')} (${source}, read as ${dialect})`,
      ),
    ),
    section(
      'Problems',
      problems.map(({ reason, span_id, detail }) => `${reason}${span_id && ` in ${span_id}`}: ${detail}`),
    ),
    section('Not read: no dialect knows these', unread(items, dialects)),
  ]
  return `${sections.filter(Boolean).join('\n\n')}\n`
}

function headline({ rollout_id, attempt_id, spans, calls, transitions, outcome, mode }: Rollout): string {
  const name = rollout_id === '' ? '(no id)' : attempt_id ? `${rollout_id}, attempt ${attempt_id}` : rollout_id
  const found =
    calls.length === 0 ? 'no model call was found' : `${counted(calls.length, 'model call')}, ${counted(transitions.length, 'transition')}`
  const scored = outcome === null ? 'no outcome' : `outcome ${outcome}`
  return `Rollout ${name}: ${counted(spans, 'span or log record', 'spans and log records')}, ${found}, ${scored}${mode === 'val' ? ', never trained on (mode val)' : ''}`
}

function callLines(call: Call, number: number, transition: Transition | undefined, reject: Reject | undefined): string {
  const { prompt, completion, usage, tokens } = call
  const from = [call.agent && `agent ${call.agent}`, call.session && `session ${call.session}`, call.endpoint && `at ${call.endpoint}`]
  const counts = [
    usage && `${usage.input ?? '?'} + ${usage.output ?? '?'} tokens`,
    tokens && `token ids ${tokens.prompt.length} + ${tokens.response.length}, logprobs ${tokens.logprobs.length}`,
    call.finish && `finish ${call.finish}`,
  ]
  const answer = [textIn(completion).trim().replaceAll(/\s+/g, ' '), ...toolCallsShown(completion)].filter(Boolean).join('; ')
  return lines([
    `Call ${number}  ${call.operation} ${call.model || '(no model name)'}  span ${call.span_id}, read as ${call.dialect} (scope ${call.scope || 'none'})`,
    list('  made by     ', from),
    list('  counts      ', counts),
    `  prompt      ${prompt.length === 0 ? 'none' : prompt.map(({ role }) => role).join(', ')}`,
    `  completion  ${answer === '' ? 'none' : clipped(answer)}`,
    list('  flags       ', call.flags),
    list('  merged      ', call.merged_span_ids),
    transition
      ? transitionLine(transition)
      : reject
        ? `  REJECTED    ${reject.reason}: ${reject.detail}`
        : '  no policy_calls processor looked at it',
  ])
}

function transitionLine({ step, policy, reward_outcome, reward_intermediate, return: credit }: Transition): string {
  const given = [
    `outcome ${reward_outcome ?? 'none'}`,
    reward_intermediate === null ? undefined : `step reward ${reward_intermediate}`,
    credit === null ? undefined : `return ${Number(credit.toPrecision(6))}`,
  ]
  return list(`  TRANSITION  step ${step} of policy ${policy}: `, given)
}

function toolLine({ name, call_id, verdict, inferred, judged }: Tool, askedBy: number | undefined): string {
  const about = [
    inferred ? 'no span of its own' : undefined,
    askedBy && `asked for by call ${askedBy}`,
    judged ? 'below a judge' : undefined,
  ]
  return `${name ?? '(no name)'} ${call_id ?? '-'}: ${verdict.status}, by ${verdict.evidence}${list('; ', about)}`
}

/** Spans that no dialect knows, by scope: where nothing was found, this is where to look. */
function unread(items: readonly Item[], known: readonly Dialect[]): string[] {
  const counts = new Map<string, number>()
  for (const item of items) {
    if (known.some(({ matches }) => matches(item))) continue
    counts.set(item.scope.name, (counts.get(item.scope.name) ?? 0) + 1)
  }
  return [...counts].map(([scope, count]) => `${count} of scope ${scope || '(none)'}`)
}

const section = (title: string, entries: readonly string[]): string =>
  entries.length === 0 ? '' : lines([title, ...entries.map((entry) => `  ${entry}`)])
const lines = (all: readonly string[]): string => all.filter(Boolean).join('\n')
const list = (head: string, parts: readonly (string | number | undefined)[]): string =>
  parts.some(Boolean) ? head + parts.filter(Boolean).join(', ') : ''
export const counted = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`
const clipped = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text)
