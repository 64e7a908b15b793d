// The turns that an update learns from. Rows come as they are stored, and prompts are put together here. Text comes only where there are turns
// without token ids, which it is then made into tokens of: it takes as long to read as token ids.

import type { ClickHouseClient } from '@clickhouse/client'

import { LONG_STATEMENT, textList } from './literals.ts'
import { readNative } from './native_reader.ts'
import { openReader } from './row_reader.ts'
import type { TrainingTransition } from './training.ts'
import { openPrompts, type StoredTurn } from './whole_prompts.ts'

interface Wanted {
  readonly policy: string
  readonly groups: readonly string[]
  readonly update: number
}

/** As it is stored. */
interface StoredTransition extends Omit<TrainingTransition, 'params'>, StoredTurn {
  readonly tenant: string
  readonly params: string
  /** 0: it is part of later prompts and nothing else. */
  readonly wanted: number
}

/** By group, in the order given; then by rollout and step. */
export async function readTurns(client: ClickHouseClient, wanted: Wanted): Promise<TrainingTransition[]> {
  const found = await client.query({
    query: `
      SELECT rollout_id, max(token_source = 'none') AS without_ids FROM transition_rows
      WHERE group_id IN {groups:Array(String)} AND policy = {policy:String} GROUP BY rollout_id`,
    query_params: { ...wanted },
    format: 'JSONEachRow',
  })
  const rollouts = await found.json<{ rollout_id: string; without_ids: 0 | 1 }>()
  const text = rollouts.some(({ without_ids }) => without_ids) ? TEXT : WITHOUT_TEXT
  const ids = rollouts.map(({ rollout_id }) => rollout_id)
  const { stream } = await client.exec({
    query: `${stored(ids, text)} FORMAT Native`,
    query_params: { ...wanted },
    // A server answers once all is known to be there.
    clickhouse_settings: { ...LONG_STATEMENT, ...LARGE_BLOCKS, wait_end_of_query: 1 },
  })
  const byGroup = new Map<string, TrainingTransition[]>(wanted.groups.map((group) => [group, []]))
  const rows = readNative(await openReader(stream)) as Iterable<unknown> as Iterable<StoredTransition>
  for (const turn of whole(rows)) byGroup.get(turn.group_id)!.push(turn)
  return [...byGroup.values()].flat()
}

const TEXT = 'prompt_messages, completion, tools'
const WITHOUT_TEXT = "'[]' AS prompt_messages, '' AS completion, '[]' AS tools"

/** As in the view: token ids make rows so wide that a block of ClickHouse's own 1 MB holds a few thousand of them. */
const LARGE_BLOCKS = { preferred_block_size_bytes: '32000000' } as const

/** Whole rollouts, each by step. What the view `transitions` joins, in its order, but that it takes more of each rollout. */
const stored = (rollouts: readonly string[], text: string) => `
SELECT tenant, group_id, rollout_id, attempt_id, revision, step, parent_step, task_id, agent, policy_version,
  prompt_token_ids, prefix_length, response_token_ids, response_logprobs, token_source, ${text}, params, finish_reason,
  reward_outcome, reward_intermediate, return, advantage, weight, credit_version, outcome, status, credit,
  policy = {policy:String} AND (rollout_id, attempt_id, step) NOT IN (
    SELECT rollout_id, attempt_id, step FROM training_rows WHERE policy = {policy:String} AND update != {update:UInt64}) AS wanted
FROM (
  SELECT tenant, rollout_id, attempt_id, revision, started_at AS began, outcome, status, credit FROM rollouts FINAL
  WHERE rollout_id IN ${textList(rollouts)} AND mode = 'train'
) AS live
INNER JOIN (
  SELECT * FROM transition_rows WHERE rollout_id IN ${textList(rollouts)} AND group_id IN {groups:Array(String)}
) AS written USING (tenant, rollout_id, attempt_id, revision)
ORDER BY began, rollout_id, attempt_id, step`

/** Columns that only prompts are made of stay: to take them out of each row takes longer than to read it. */
function* whole(rows: Iterable<StoredTransition>): Generator<TrainingTransition> {
  const rollouts = new Map<string, ReturnType<typeof openPrompts>>()
  for (const turn of rows) {
    const key = `${turn.tenant}\0${turn.rollout_id}\0${turn.attempt_id}`
    const promptOf = rollouts.get(key) ?? openPrompts()
    rollouts.set(key, promptOf)
    const prompt = promptOf(turn)
    if (turn.wanted) yield { ...turn, ...prompt, params: JSON.parse(turn.params) as Record<string, unknown> }
  }
}
