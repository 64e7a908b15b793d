// The batch that the next step would take, for a person to read: what the policy wrote, what it did not, and what each token is worth.

import type { ClickHouseClient } from '@clickhouse/client'

import { openTokenizer, type Tokenizer } from '../policy/tokenizer.ts'
import { policiesOf } from '../storage/policies.ts'
import { trainingOf } from '../storage/training.ts'
import type { Surroundings } from './loop.ts'
import type { TrainerOptions } from './options.ts'
import type { Sample } from './row.ts'
import { countByReason, oldestAllowed, supplyOf, takeGroups, takeOptionsOf } from './take.ts'

/** Takes nothing and writes nothing. Fewer groups than a step needs are shown as well. */
export async function dryRun(
  options: TrainerOptions,
  { client, objective, retokenize }: Pick<Surroundings, 'objective' | 'retokenize'> & { client: ClickHouseClient },
): Promise<string> {
  const training = trainingOf(client, options.policy)
  const versions = await policiesOf(client).versions(options.policy)
  const { ready, without_signal } = await supplyOf(training, objective, oldestAllowed(versions, options.max_staleness))
  const groups = ready.slice(0, options.groups_per_step).map(({ group_id }) => group_id)
  const takeOptions = takeOptionsOf(options, { objective, retokenize })
  const step = (versions.at(-1)?.version ?? 0) + 1
  const { samples, refused } = await takeGroups(training, step, groups, takeOptions)
  const tokenizer = await openTokenizer(options.base)
  const reasons = Object.entries(countByReason(refused)).map(([reason, count]) => `${count} ${reason}`)
  return [
    `${groups.length} of ${options.groups_per_step} groups are ready; ${without_signal.length} more are without signal`,
    ...(reasons.length > 0 ? [`refused: ${reasons.join(', ')}`] : []),
    ...samples.map((sample, i) => sampleText(sample, `row ${i + 1} of ${samples.length}`, tokenizer)),
    '',
  ].join('\n')
}

/** A line for each run of tokens with the same advantage; what the policy did not write has none. Tokens are separated by │. */
function sampleText({ tokens, scored, turns, temperature }: Sample, name: string, tokenizer: Tokenizer): string {
  const { turn } = turns[0]!
  const steps = turns.map((span) => span.turn.step).join(', ')
  const about = [`group ${turn.group_id}`, `rollout ${turn.rollout_id}`, ...(turn.agent ? [`agent ${turn.agent}`] : []), `steps ${steps}`]
  const from = turn.policy_version === null ? 'version unknown' : `version ${turn.policy_version}`
  const lines = [`\n${name}: ${[...about, from, `temperature ${temperature}`].join(', ')}`]
  let place = 0
  for (let i = 0; i < tokens.length;) {
    const span = scored[i] ? turns.find(({ from, to }) => place >= from && place < to)! : undefined
    const run = runOf(scored, i)
    const length = span ? Math.min(run, span.to - place) : run
    const text = Array.from(tokens.subarray(i, i + length), (id) => tokenizer.decode([id])).join('│')
    const worth = span ? (span.turn.advantage ?? span.turn.return ?? 0) : undefined
    lines.push(`${worth === undefined ? '' : worth.toFixed(3)}`.padStart(9) + `  ${JSON.stringify(text).slice(1, -1)}`)
    if (span) place += length
    i += length
  }
  return lines.join('\n')
}

/** How far it goes on as at `from`: scored or not. */
function runOf(scored: Uint8Array, from: number): number {
  const end = scored.indexOf(1 - scored[from]!, from)
  return (end < 0 ? scored.length : end) - from
}
