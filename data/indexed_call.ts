// A model call in flat, indexed attributes, gen_ai.prompt.0.role and so on: OpenLLMetry before 0.55,
// and AgentOps, which copied it.

import type { CallReading } from './dialect.ts'
import { finishOf } from './genai.ts'
import { joinMessages, readMessage, readMessages } from './messages.ts'
import type { Attributes, Value } from './span.ts'
import { decode, listOf, recordOf, unflatten } from './values.ts'

/** @param tools prefix of the indexed tool definitions */
export function readIndexedCall(attributes: Attributes, tools: string): Pick<CallReading, 'prompt' | 'completion' | 'tools' | 'finish'> {
  const functions = listOf(unflatten(attributes, tools)).map(toolDefinition)
  const choice = recordOf(listOf(unflatten(attributes, 'gen_ai.completion'))[0])
  return {
    prompt: readMessages(unflatten(attributes, 'gen_ai.prompt')),
    completion: choice && joinMessages(readMessage({ role: 'assistant', ...choice }, 'assistant')),
    tools: functions.length > 0 ? functions : undefined,
    finish: finishOf(choice?.finish_reason),
  }
}

/** The parameters' schema is JSON text. */
function toolDefinition(value: Value): Value {
  const definition = recordOf(value)
  return definition?.parameters === undefined ? value : { ...definition, parameters: decode(definition.parameters).value ?? null }
}
