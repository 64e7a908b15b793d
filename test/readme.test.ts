// The examples in README.md and docs/ work: commands are run, configurations loaded, queries asked, and code is that of a file which is
// compiled and tested. A block's words after its language say what it is; a comment before it, which file it shows.

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { main } from '../cli/leyden.ts'
import { registry } from '../cli/registry.ts'
import call_limit from '../examples/write_a_component/call_limit.ts'
import { loadConfig } from '../pipeline/config.ts'
import { freePort, startLeyden } from './leyden.ts'
import { isAlive, stopEmbedded } from './storage.ts'

const ROOT = join(import.meta.dirname, '..')
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((f) => f.endsWith('.md'))
    .map((f) => `docs/${f}`),
]

interface Block {
  readonly page: string
  readonly language: string
  readonly is: string
  readonly shows: string | undefined
  readonly text: string
  readonly line: number
}

const blocks = PAGES.flatMap(blocksOf)
const folder = mkdtempSync(join(tmpdir(), 'leyden-readme-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('code', () => {
  test.each(blocks.filter(({ shows }) => shows))('$page:$line shows $shows as it is', ({ shows, text }) => {
    // In an example's own folder, sources are one level further away than in a component's.
    expect(text).toBe(read(shows!).replaceAll(/'(?:\.\.\/)+(?=\w+\/)/g, "'../"))
  })
})

describe('configuration', () => {
  const known = { ...registry, processors: [...registry.processors, call_limit] }
  const load = (...sources: string[]) => loadConfig(sources, { registry: known, env: {}, cwd: ROOT })

  test.each(of('yaml', ''))('$page:$line is a whole pipeline.yaml', async ({ text }) => {
    expect((await load(`yaml:${text}`)).problems).toEqual([])
  })

  test.each(of('yaml', 'fragment'))('$page:$line fits into config/pipeline.yaml', async ({ text }) => {
    expect((await load('config/pipeline.yaml', `yaml:${text}`)).problems).toEqual([])
  })

  test.each(['config/pipeline.yaml', 'config/docker.yaml'])('%s is right', async (file) => {
    const { problems, warnings } = await load(...new Set(['config/pipeline.yaml', file]))
    expect([problems, warnings]).toEqual([[], []])
  })

  const recipes = ['spider', 'musique', 'calc_x'].map((name) => `docs/recipes/${name}.yaml`)
  const learning = ['demo', 'text_to_sql', 'multi_hop', 'math_tool'].map((name) => `examples/${name}/pipeline.yaml`)
  test.each([...recipes, ...learning])('%s is right', async (file) => {
    const { problems, warnings } = await load(file)
    expect([problems, warnings]).toEqual([[], []])
  })

  test.each(of('yaml', 'mistakes'))('$page:$line is answered as the page says', async ({ page, text, line }) => {
    const answer = blocks.find((block) => block.page === page && block.language === 'text' && block.line > line)!
    writeFileSync(join(folder, 'pipeline.yaml'), text)
    let said = ''
    const io = { stdout: () => {}, stderr: (words: string) => void (said += words), env: {}, cwd: folder }
    expect(await main(['validate', '--config', 'pipeline.yaml'], io)).toBe(1)
    expect(said).toBe(answer.text)
  })
})

describe('queries', () => {
  let leyden: Awaited<ReturnType<typeof startLeyden>>

  beforeAll(async () => {
    leyden = await startLeyden()
    for (const file of ['examples/replay/order_agent.json', 'test/fixtures/spans/pitfall-no-content.json']) {
      const { resourceSpans, resourceLogs } = JSON.parse(read(file))
      expect((await leyden.post('traces', { resourceSpans })).status).toBe(200)
      if (resourceLogs) expect((await leyden.post('logs', { resourceLogs })).status).toBe(200)
    }
    await leyden.rows(3, 'SELECT rollout_id FROM rollouts FINAL')
    await leyden.rows(1, 'SELECT group_id FROM credits')
  })
  afterAll(() => leyden.remove())

  test.each(of('sql', ''))('$page:$line finds something', async ({ text }) => {
    expect(await leyden.query(text)).not.toEqual([])
  })

  test.each(of('sql', 'training'))('$page:$line can be asked', ({ text }) => expect(leyden.query(text)).resolves.toEqual([]))

  test("the README's is answered as it says", async () => {
    const [question] = of('sql', '')
    const answer = blocks.find(({ page, language, line }) => page === 'README.md' && language === 'text' && line > question!.line)
    const env = { CLICKHOUSE_URL: `embedded:${leyden.folder}` }
    let said = ''
    const io = { stdout: (words: string) => void (said += words), stderr: () => {}, env, cwd: folder }
    await main(['sql', '--format', 'PrettyCompactMonoBlock', question!.text], io)
    expect(said).toBe(answer!.text)
  })
})

describe("the README's commands", () => {
  let leyden: ChildProcess
  let env: NodeJS.ProcessEnv
  let http: number

  beforeAll(async () => {
    const [grpc, health, scores] = [await freePort(), await freePort(), await freePort()]
    http = await freePort()
    env = { ...process.env, CLICKHOUSE_URL: `embedded:${folder}/store`, OTEL_EXPORTER_OTLP_ENDPOINT: `http://localhost:${grpc}` }
    const elsewhere = {
      'receivers.otlp.protocols.grpc.endpoint': `localhost:${grpc}`,
      'receivers.otlp.protocols.http.endpoint': `localhost:${http}`,
      'receivers.scores.endpoint': `localhost:${scores}`,
      'extensions.health_check.endpoint': `localhost:${health}`,
      'connectors.rollouts.root_grace': '200ms',
      'service.telemetry.metrics.level': 'none',
      'service.telemetry.logs.level': 'error',
    }
    const set = Object.entries(elsewhere).flatMap(([option, value]) => ['--set', `${option}=${value}`])
    leyden = spawn('npm', ['start', '--', ...set], { cwd: ROOT, env, stdio: ['ignore', 'ignore', 'inherit'], detached: true })
    await healthy(`http://localhost:${health}`)
  })
  afterAll(async () => {
    const group = -leyden.pid! // npm, its shell, and Leyden
    process.kill(group)
    while (isAlive(group)) await sleep(20)
    await stopEmbedded(join(folder, 'store'))
  })

  const commands = blocks.filter(({ page, language }) => page === 'README.md' && language === 'sh').map(({ text }) => text.trim())

  test('begin with setting up, to run and to test', () => {
    expect(commands).toEqual(expect.arrayContaining(['npm install && npm start', 'npm install && npm test']))
    expect(read('.ci/run')).toMatch(/^npm ci .*\n[^]*^npm test\b/m)
  })

  test.each(commands.filter((command) => !command.startsWith('npm install')))('%s', async (command) => {
    const elsewhere = command.replace('localhost:4318', `localhost:${http}`)
    const { stdout } = await promisify(execFile)('sh', ['-ec', elsewhere], { cwd: ROOT, env })
    if (command === 'npm run example') expect(stdout).toMatch(/advantage[^]*TRANSITION/)
  })

  test('the captured run can be replayed, also twice', async () => {
    const replay = ['run', 'replay', '--', 'examples/replay/order_agent.json', `http://localhost:${http}`]
    for (let times = 0; times < 2; times++) await promisify(execFile)('npm', replay, { cwd: ROOT, env })
  })

  async function healthy(url: string): Promise<void> {
    const asked = () => fetch(url).catch(() => undefined)
    for (const deadline = Date.now() + 15_000; !(await asked())?.ok; await sleep(100)) {
      if (Date.now() > deadline) throw new Error('npm start was not ready within 15 s')
    }
  }
})

function of(language: string, is: string): Block[] {
  return blocks.filter((block) => block.language === language && block.is === is && !block.shows)
}

function blocksOf(page: string): Block[] {
  const source = read(page)
  return [...source.matchAll(/(?:^<!-- (\S+) -->\n\n)?^```(\w+)[ ]*(.*)\n([^]*?)^```$/gm)].map((match) => {
    const [, shows, language, is, text] = match as unknown as [string, string | undefined, string, string, string]
    return { page, language, is, shows, text, line: source.slice(0, match.index).split('\n').length }
  })
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}
