// Every dialect, in the order in which they are tried: the first that matches says what a span is. Those
// that mark a span as theirs by a key or name of their own come before genai, since their spans often carry
// gen_ai.* attributes too, with another meaning.

import type { Dialect } from '../data/dialect.ts'
import agentLightning from './agent-lightning.ts'
import agentops from './agentops.ts'
import genaiLog from './genai-log.ts'
import genai from './genai.ts'
import openinference from './openinference.ts'
import openllmetry from './openllmetry.ts'

export const dialects: readonly Dialect[] = [agentLightning, openinference, agentops, openllmetry, genai, genaiLog]
