import { expect, test } from 'vitest'

import { itemsOf } from '../test/read.ts'
import { tool, traces, type SpanSpec } from '../test/spans.ts'
import type { Span } from './span.ts'
import { verdictOf } from './verdict.ts'

function span(over: Partial<SpanSpec> & { threw?: string }): Span {
  const [item] = itemsOf(traces('t', [tool('x', over)])) as Span[]
  return over.threw === undefined
    ? item!
    : { ...item!, events: [{ name: 'exception', time: 0n, attributes: { 'exception.type': over.threw } }] }
}

// Each with everything that is weaker than itself against it.
test.each<[string, Parameters<typeof span>[0], string | undefined, string]>([
  ['a failed status', { status: 2, attributes: { 'gen_ai.tool.status': 'success' } }, '{"ok": true}', 'error: status.code'],
  [
    'error.type',
    { status: 1, attributes: { 'error.type': 'timeout', 'gen_ai.tool.status': 'success' } },
    '{"ok": true}',
    'error: error.type',
  ],
  ['an exception, even under status OK', { status: 1, threw: 'ValueError' }, '{"ok": true}', 'error: exception event'],
  ['a key that says failure', { status: 1, attributes: { 'gen_ai.tool.status': 'error' } }, '{"ok": true}', 'error: tool.status'],
  ['a key that says success', { attributes: { 'gen_ai.task.status': 'success' } }, 'Error: no', 'ok: tool.status'],
  ['a payload with status error', { status: 1 }, '{"status": "error"}', 'error: result payload'],
  ['a payload with an error', { status: 1 }, '{"error": "no such city"}', 'error: result payload'],
  ['an MCP result', { status: 1 }, '{"isError": true, "content": []}', 'error: result payload'],
  ['an exit code', { status: 1 }, '{"exit_code": 2, "stdout": ""}', 'error: result payload'],
  ['a payload that says success', { status: 1 }, "{'status': 'success'}", 'ok: result payload'],
  [
    'a payload in LangChain’s wrapper',
    { status: 1 },
    '{"output": {"lc": 1, "kwargs": {"status": "error", "content": "no"}}}',
    'error: result payload',
  ],
  ['text that begins like an error', { status: 1 }, 'Error: (sqlite3.OperationalError) no such column', 'error: result text'],
  ['text in blocks', {}, '[{"type": "text", "text": "Error: no such city"}]', 'error: result text'],
  ['an MCP result that says nothing of how it went', {}, '{"content": [{"type": "text", "text": "Error: none"}]}', 'error: result text'],
  ['text in quotes, as decorators write it', {}, '"Error: no such city"', 'error: result text'],
  ['a traceback', {}, 'Traceback (most recent call last):\n …', 'error: result text'],
  ['status OK', { status: 1 }, 'found', 'ok: status OK'],
  ['a result', {}, '', 'ok: has result'],
  ['nothing', {}, undefined, 'unknown: no content'],
  ['a result that was hidden', {}, '[REDACTED]', 'unknown: no content'],
  ['a result that could not be written', {}, '<not serializable>', 'unknown: no content'],
])('%s', (_, spec, result, said) => {
  const { status, evidence } = verdictOf(span(spec), result)
  expect(`${status}: ${evidence}`).toBe(said)
})

test('what AIR classes failures by is read as well', () => {
  const attributes = { 'error.type': 'timeout', 'http.response.status_code': 503, 'rpc.grpc.status_code': 14, 'process.exit.code': 137 }
  expect(verdictOf(span({ attributes }), undefined)).toMatchObject({
    error_type: 'timeout',
    http_status: 503,
    grpc_status: 14,
    exit_code: 137,
  })
  expect(verdictOf(span({ threw: 'ValueError' }), '{"exit_code": 1}')).toMatchObject({ error_type: 'ValueError', exit_code: 1 })
})
