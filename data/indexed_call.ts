// A model call in flat, indexed attributes, gen_ai.prompt.0.role and so on: OpenLLMetry before 0.55,
// and AgentOps, which copied it.

import type { CallReading } from './dialect.ts'
import { joinMessages, readMessage, readMessages } from './messages.ts'
import type { Attributes, Value } from './span.ts'
import { compact, decode, listOf, recordOf, unflatten } from './values.ts'

/** @param tools prefix of the indexed tool definitions */
export function readIndexedCall(attributes: Attributes, tools: string): Pick<CallReading, 'prompt' | 'completion' | 'tools'> {
  const functions = listOf(unflatten(attributes, tools)).map(toolDefinition)
  const choice = recordOf(listOf(unflatten(attributes, 'gen_ai.completion'))[0])
  return compact<Pick<CallReading, 'prompt' | 'completion' | 'tools'>>({
    prompt: readMessages(unflatten(attributes, 'gen_ai.prompt')),
    completion: choice && joinMessages(readMessage({ role: 'assistant', ...choice }, 'assistant')),
    tools: functions.length > 0 ? functions : undefined,
  })
}

/** The parameters' schema is JSON text. */
function toolDefinition(value: Value): Value {
  const definition = recordOf(value)
  return definition?.parameters === undefined ? value : { ...definition, parameters: decode(definition.parameters).value ?? null }
}
