// Python's clients, unchanged, against the endpoint: what they ask of any server, and of one whose policy says anything unless it is held to a
// form. Where python3 (or $PYTHON) lacks their packages, the names of the tests say that they are skipped.

import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { expect, onTestFinished, test } from 'vitest'

import { adder, scripted, startEndpoint, type TestEndpoint } from '../test/openai.ts'
import { makePolicy } from '../test/policy.ts'

const python = process.env['PYTHON'] ?? 'python3'
const peers = fileURLToPath(new URL('../test/peers/', import.meta.url))

/** What a peer prints, a line for each scenario that went well. */
async function said(peer: string, { url }: TestEndpoint): Promise<string[]> {
  const { stdout } = await promisify(execFile)(python, [peer, `${url}/v1`], { cwd: peers })
  return stdout.trim().split('\n')
}

const has = (...modules: string[]) => spawnSync(python, ['-c', `import ${modules.join(', ')}`], { stdio: 'ignore' }).status === 0
const unless = (there: boolean, what: string) => (there ? '' : ` (skipped: ${python} has no ${what})`)

const openai = has('openai')
test.skipIf(!openai)(`openai is served${unless(openai, 'openai')}`, { timeout: 60_000 }, async () => {
  expect(await said('openai_peer.py', await startEndpoint(scripted(adder)))).toEqual([
    ...['ok chat', 'ok stream', 'ok tools', 'ok responses', 'ok errors'],
  ])
})

const others = openai && has('agents', 'pydantic_ai')
const title = 'openai, openai-agents and pydantic_ai get objects of their classes, whole and streamed, and forced tool calls'
test.skipIf(!others)(title + unless(others, 'openai-agents and pydantic_ai'), { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leyden-python-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const base = await makePolicy(join(folder, 'base'), { context: 2_048 })
  const endpoint = await startEndpoint({ models: { mine: { engine: 'builtin', kernels: 'decomp', base } } })
  expect(await said('openai_forms.py', endpoint)).toEqual([
    ...['ok parse', 'ok stream', 'ok tool', 'ok responses', 'ok agents', 'ok pydantic_ai'],
  ])
})
