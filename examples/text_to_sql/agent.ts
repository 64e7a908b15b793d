// A writer, a checker and a rewriter on one model, as a LangGraph: the query is written, run, checked, and rewritten until the checker is
// content or three queries were tried. An ordinary program: nothing here knows Leyden.

import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
import type { ChatOpenAI } from '@langchain/openai'

import type { Message } from '../demonstration.ts'
import { check, rewrite, write } from './prompts.ts'
import { execute, type Outcome } from './sqlite.ts'

const MOST_QUERIES = 3

const State = Annotation.Root({
  database: Annotation<number>,
  schema: Annotation<string>,
  question: Annotation<string>,
  sql: Annotation<string>,
  outcome: Annotation<Outcome>,
  correct: Annotation<boolean>,
  queries: Annotation<number>,
})
type State = typeof State.State

/** The query that the agent ends with. */
export async function answer(model: ChatOpenAI, asked: Pick<State, 'database' | 'schema' | 'question'>): Promise<string> {
  const say = async (messages: readonly Message[]): Promise<string> =>
    (await model.invoke(messages.map(({ role, content }): [string, string] => [role, content]))).text.trim()
  const run = (database: number, sql: string, queries: number) => ({ sql, queries, outcome: execute(database, sql).outcome })

  const graph = new StateGraph(State)
    .addNode('writer_agent', async (state) => run(state.database, await say(write(state)), 1))
    .addNode('checker_agent', async (state) => ({ correct: (await say(check(state, state.sql, state.outcome))) === 'correct' }))
    .addNode('rewriter_agent', async (state) => {
      const sql = await say(rewrite(state, state.sql, state.outcome))
      return run(state.database, sql === '' ? state.sql : sql, state.queries + 1)
    })
    .addEdge(START, 'writer_agent')
    .addEdge('writer_agent', 'checker_agent')
    .addConditionalEdges('checker_agent', ({ correct, queries }) => (correct || queries === MOST_QUERIES ? END : 'rewriter_agent'))
    .addEdge('rewriter_agent', 'checker_agent')
    .compile()

  const { sql } = await graph.invoke(asked as State, { runName: 'text_to_sql' })
  return sql
}
