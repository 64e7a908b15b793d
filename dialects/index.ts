// Every dialect, in the order in which they are tried: the first that matches says what a span is. Those that mark a span
// as theirs by a key of their own come first, then those known by names and scopes, and genai last, since the spans of
// most others carry gen_ai.* attributes too, often with another meaning. Logfire is before all that may write into
// a Logfire set-up: it knows the copies of their spans that are still pending.

import type { Dialect } from '../data/dialect.ts'
import agentLightning from './agent-lightning.ts'
import agentops from './agentops.ts'
import claudeCode from './claude-code.ts'
import codex from './codex.ts'
import geminiCli from './gemini-cli.ts'
import genaiLog from './genai-log.ts'
import genai from './genai.ts'
import googleAdk from './google-adk.ts'
import langfuse from './langfuse.ts'
import langsmith from './langsmith.ts'
import litellm from './litellm.ts'
import llamaindex from './llamaindex.ts'
import logfire from './logfire.ts'
import mlflow from './mlflow.ts'
import openinference from './openinference.ts'
import openllmetry from './openllmetry.ts'
import rl from './rl.ts'
import vercel from './vercel.ts'
import vllm from './vllm.ts'

export const dialects: readonly Dialect[] = [
  ...[agentLightning, logfire, claudeCode, openinference, langfuse, mlflow, langsmith, agentops, litellm, vllm, vercel, googleAdk],
  ...[openllmetry, llamaindex, geminiCli, rl, codex, genai, genaiLog],
]
