// What a rollout that ended in each status counts as. A limit that the policy ran into is its own doing, so loops do not pay;
// what was cancelled or timed out tells of the infrastructure.

import type { End, Status, StatusRule } from '../data/rollout.ts'

export const STATUS_RULES: Readonly<Record<End, StatusRule>> = {
  succeeded: 'as_scored',
  failed: 'as_scored',
  cancelled: 'left_out',
  timeout: 'left_out',
  limit: 'lowest',
}

type Rules = { readonly statuses?: Readonly<Record<string, StatusRule>> | undefined }

export const statusRule = (status: Status, { statuses }: Rules): StatusRule =>
  (status === '' ? undefined : (statuses ?? STATUS_RULES)[status]) ?? 'as_scored'
