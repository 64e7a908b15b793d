// A task of two calls: say in a tool call what to calculate, then tell the result. The base policy learned from people who guess, and who
// take losing for gaining: it knows the language and is mostly wrong. Training has to teach it its tool.

import { writeLanguage, END, toolCall } from '../examples/language.ts'
import type { ChatMessage } from '../policy/chat_template.ts'
import { initCheckpoint } from '../policy/checkpoint.ts'
import type { Decoder, Generation } from '../policy/decoding.ts'
import { openLearner } from '../policy/learner.ts'
import type { Row } from '../policy/learning.ts'
import type { Tokenizer } from '../policy/tokenizer.ts'
import { openTokenizer } from '../policy/tokenizer.ts'
import { seeded } from './random.ts'
import { chat, reward, tool, traces, type SpanSpec } from './spans.ts'

/** Made by `makeBase(BASE)`. */
export const BASE = 'test/fixtures/policies/calculator'

const LANGUAGE = { words: ['loses', 'gains', '+', '-', 'error'], tools: [{ name: 'calc', argument: 'x' }], digits: true }
/** Percent of the people. */
const GUESS = 40
const MISTAKE_LOSING = 65

type Random = (n: number) => number
export interface Task {
  readonly a: number
  readonly b: number
  readonly verb: 'loses' | 'gains'
}

export const taskOf = (random: Random): Task => ({ a: 10 + random(40), b: 1 + random(9), verb: random(3) > 0 ? 'loses' : 'gains' })

const question = ({ a, b, verb }: Task): ChatMessage => ({ role: 'user', content: `${a} ${verb} ${b}` })
const answerOf = ({ a, b, verb }: Task): number => (verb === 'loses' ? a - b : a + b)

/** What the calculator says to what the policy wrote; undefined where that is no call of it. */
function calculate(text: string): string | undefined {
  const [, written] = /^<tool_call> {"name": "calc", "arguments": {"x": "(.*)"}} <\/tool_call>$/.exec(text.trim()) ?? []
  if (written === undefined) return undefined
  const [, a, operator, b] = /^(\d+)([+-])(\d+)$/.exec(written.replaceAll(' ', '')) ?? []
  return operator === undefined ? 'error' : String(operator === '+' ? Number(a) + Number(b) : Number(a) - Number(b))
}

export interface Sampler {
  readonly decoder: Decoder
  readonly tokenizer: Tokenizer
}

/** One rollout as the spans of its run: two calls at most, the tool between them, and the reward below the root. */
export async function solve(
  { decoder, tokenizer }: Sampler,
  task: Task,
  { rollout, group, group_size, seed }: { rollout: string; group: string; group_size: number; seed: number },
): Promise<{ document: object; success: boolean }> {
  const messages = [question(task)]
  const spans: SpanSpec[] = []
  let said = ''
  for (let turn = 0; turn < 2; turn++) {
    const prompt = tokenizer.chat(messages, { add_generation_prompt: true }).ids
    const sampling = { temperature: 1, top_p: 1, top_k: 0, max_tokens: 12, stop: [], seed: seed * 2 + turn, top_logprobs: 0 }
    const generation = await decoder.generate(prompt, sampling, () => {}, new AbortController().signal)
    spans.push(callSpan(`${rollout} ${turn}`, prompt, generation))
    said = generation.text.trim()
    const result = calculate(said)
    if (result === undefined || turn === 1) break
    spans.push(tool(`${rollout} tool`, { tool: 'calc', result }))
    messages.push({ role: 'assistant', content: said }, { role: 'tool', content: result })
  }
  const success = said.replaceAll(' ', '') === String(answerOf(task))
  const ids = {
    'leyden.rollout.id': rollout,
    'leyden.group.id': group,
    'leyden.group.size': group_size,
    'leyden.task.id': question(task).content as string,
  }
  const root = { id: `${rollout} run`, name: 'agent', at: 0, for: 1_000 }
  const below = [...spans, reward(`${rollout} reward`, success ? 1 : 0)].map((span) => ({ ...span, parent: root.id }))
  return { document: traces(rollout, [root, ...below], ids), success }
}

function callSpan(id: string, prompt: readonly number[], { text, token_ids, logprobs, version }: Generation): SpanSpec {
  return chat(id, {
    answer: text,
    attributes: {
      'gen_ai.request.temperature': 1,
      'leyden.policy.version': version,
      prompt_token_ids: JSON.stringify(prompt),
      response_token_ids: JSON.stringify(token_ids),
      'logprobs.content': JSON.stringify(logprobs.map((logprob) => ({ logprob }))),
    },
  })
}

/** Fifty thousand parameters, taught by imitation. The same each time. */
export async function makeBase(folder: string, steps = 700): Promise<void> {
  const vocab_size = writeLanguage(folder, LANGUAGE)
  const size = { hidden_size: 48, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 64 }
  initCheckpoint(folder, { vocab_size, ...size, eos_token_id: END }, 1)
  const tokenizer = await openTokenizer(folder)
  const learner = await openLearner({
    ...{ base: folder, backend: 'wasm', kernels: 'auto', value_head: false, tokens_per_pass: 4096, seed: 1 },
    optimizer: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0, clip_norm: 1 },
  })
  const random = seeded(1)
  for (let step = 1; step <= steps; step++) {
    const rows = Array.from({ length: 32 }, () => demonstration(tokenizer, random))
    await learner.accumulate(rows, ({ logprobs }) => ({ logprobs: new Float32Array(logprobs.length).fill(-1 / logprobs.length) }))
    await learner.step(3e-3 * Math.min(1, step / 50) * (1.05 - step / steps))
  }
  await learner.save(folder)
  learner.close()
}

function demonstration(tokenizer: Tokenizer, random: Random): Row {
  const task = taskOf(random)
  const operator = task.verb === 'gains' || random(100) < MISTAKE_LOSING ? '+' : '-'
  const call = toolCall('calc', 'x', [...`${task.a}${operator}${task.b}`].join(' '))
  const first = random(2) === 0
  const guess = first && random(100) < GUESS
  const messages = first
    ? [question(task)]
    : [question(task), { role: 'assistant', content: call }, { role: 'tool', content: calculate(call)! }]
  const reply = guess ? String(10 + random(40)) : first ? call : calculate(call)!
  const prompt = tokenizer.chat(messages, { add_generation_prompt: true }).ids
  const tokens = Int32Array.from([...prompt, ...tokenizer.encode(reply), END])
  return { tokens, scored: new Uint8Array(tokens.length).fill(1, prompt.length), temperature: 1 }
}
