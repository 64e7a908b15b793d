// The examples of docs/frameworks.md for Python, run as they are behind its first, which sets up tracing. Each needs its framework's packages:
// where `python3` (or $PYTHON) has none of them, the name of its test says that it is skipped.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

import { expect, test } from 'vitest'

const python = process.env['PYTHON'] ?? 'python3'
const snippets = [...readFileSync('docs/frameworks.md', 'utf8').matchAll(/^## (.+)$|^```python\n([^]*?)^```$/gm)]
const [setup = '', ...examples] = snippets.flatMap(([, , code]) => code ?? [])
const modules = (code: string) => [...code.matchAll(/^(?:from|import) ([\w.]+)/gm)].map(([, name]) => name!)

/** Asked once for all of them: looking for a module is cheap, starting Python is not. */
const FIND = `
import importlib.util, json, sys
def there(name):
    try: return importlib.util.find_spec(name) is not None
    except Exception: return False
print(json.dumps([name for name in json.load(sys.stdin) if there(name)]))
`
const asked = spawnSync(python, ['-c', FIND], { input: JSON.stringify([setup, ...examples].flatMap(modules)), encoding: 'utf8' })
const present = new Set(asked.status === 0 ? (JSON.parse(asked.stdout) as string[]) : [])

test('the page has examples, and the first sets up tracing', () => {
  expect(examples.length).toBeGreaterThan(10)
  expect(modules(setup)).toContain('opentelemetry.sdk.trace')
})

const PARSE = 'import ast, json, sys\nfor code in json.load(sys.stdin): ast.parse(code)'

test.skipIf(asked.status !== 0)(`every one of them is Python${asked.status === 0 ? '' : ` (skipped: there is no ${python})`}`, () => {
  const { stderr } = spawnSync(python, ['-c', PARSE], { input: JSON.stringify([setup, ...examples]), encoding: 'utf8' })
  expect(stderr).toBe('')
})

for (const code of examples) {
  const missing = modules(`${setup}\n${code}`).find((name) => !present.has(name))
  const name = modules(code).join(', ') || code.split('\n')[0]!
  test.skipIf(missing)(`${name}${missing ? ` (skipped: ${python} has no ${missing})` : ''}`, { timeout: 60_000 }, () => {
    const env = { ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OPENAI_API_KEY: 'none' }
    const { status, stderr } = spawnSync(python, ['-c', `${setup}\n${code}`], { env, encoding: 'utf8' })
    expect(stderr).not.toContain('Traceback')
    expect(status).toBe(0)
  })
}
