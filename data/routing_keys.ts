/** The attributes that say where an item belongs: what the rollouts connector asks of every batch. */
export const ROUTING_KEYS = [
  'agentlightning.rollout_id',
  'agentlightning.attempt_id',
  'agentlightning.span_sequence_id',
  'leyden.rollout.id',
  'leyden.attempt.id',
  'leyden.task.id',
  'leyden.group.id',
  'leyden.group.size',
  'leyden.mode',
  'leyden.rollout.status',
  'session.id',
  'gen_ai.conversation.id',
  'gen_ai.response.id',
  'event.name',
  'metadata.requester_custom_headers',
] as const
