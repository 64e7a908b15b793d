// Rules about the repository itself, so that review does not have to remember them. A failure names the file to edit.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import ts from 'typescript'
import { describe, expect, test } from 'vitest'

import { registry } from '../cli/registry.ts'
import { loadConfig } from '../pipeline/config.ts'
import { componentPage } from '../pipeline/docs.ts'
import type { Field, Fields } from '../pipeline/schema.ts'

const ROOT = join(import.meta.dirname, '..')

const BASE = ['data', 'http', 'dialects', 'credit', 'policy']
const COMPONENT = [...BASE, 'storage', 'pipeline']

/** What each folder may import beside itself and packages. `test` may import anything. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  data: [],
  http: [],
  dialects: ['data'],
  credit: ['data'],
  policy: ['data'],
  agent: ['data'],
  storage: BASE,
  pipeline: BASE,
  trainer: ['data', 'credit', 'policy', 'storage'],
  endpoint: COMPONENT,
  receivers: [...COMPONENT, 'endpoint'],
  processors: COMPONENT,
  connectors: COMPONENT,
  exporters: COMPONENT,
  extensions: [...COMPONENT, 'trainer'],
  cli: [...COMPONENT, 'agent', 'trainer', 'endpoint', 'receivers', 'processors', 'connectors', 'exporters', 'extensions'],
  examples: ['data', 'pipeline', 'policy', 'agent'],
  bench: [...COMPONENT, 'agent', 'trainer', 'cli', 'test'],
}
const KINDS = ['receivers', 'processors', 'connectors', 'exporters', 'extensions'] as const

/** Folders that git does not keep. */
const IGNORED = ['node_modules', ...read('.gitignore').match(/[\w-]+(?=\/$)/gm)!]
const folders = readdirSync(ROOT, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && !IGNORED.includes(entry.name))
  .map((entry) => entry.name)
  .filter((folder) => files(folder).length > 0)

describe('imports', () => {
  test('every folder with code has its place in LAYERS of test/repository.test.ts', () => {
    const known = [...Object.keys(LAYERS), 'test']
    expect(folders.filter((folder) => sources(folder).length > 0 && !known.includes(folder))).toEqual([])
  })

  test.each(Object.entries(LAYERS))('%s imports only downwards', (folder, allowed) => {
    const wrong = sources(folder).flatMap((file) =>
      imports(file)
        .filter((target) => ![folder, ...allowed].includes(target.split('/')[0]!))
        .map((target) => `edit ${file}: ${folder}/ must not import ${target}, only ${allowed.join(', ') || 'packages'}`),
    )
    expect(wrong).toEqual([])
  })

  test.each(KINDS)('no file of %s imports a sibling', (kind) => {
    const wrong = components(kind).flatMap((file) =>
      imports(file)
        .filter((target) => target.startsWith(`${kind}/`))
        .map((target) => `edit ${file}: what it shares with ${target} belongs in a lower folder`),
    )
    expect(wrong).toEqual([])
  })
})

describe.each(KINDS)('%s', (kind) => {
  const types = registry[kind].map((component) => component.type)

  test('are listed in index.ts alphabetically, each file under its own name', () => {
    const names = components(kind).map((file) => file.slice(kind.length + 1, -'.ts'.length))
    expect(types, `edit ${kind}/index.ts`).toEqual(names.sort())
  })

  test.each(types)('%s has a test beside it that checks what every component promises', (type) => {
    const file = `${kind}/${type}.test.ts`
    const test = existsSync(join(ROOT, file)) ? read(file) : ''
    expect(test, `write ${file}, which calls conforms() of test/conformance.ts`).toMatch(/\bconforms\(/)
  })

  test.each([...registry[kind]])('$type says what it and each of its options is for', ({ type, summary, config }) => {
    const silent = [...undocumented(config, type)].map((option) => `edit ${kind}/${type}.ts: ${option} needs a sentence`)
    expect(summary).toMatch(/^[A-Z].*\.$/s)
    expect(silent).toEqual([])
  })

  test.each([...registry[kind]])('$type has an up-to-date page: `npm test -- -u` writes docs/' + kind, async (component) => {
    await expect(componentPage(component)).toMatchFileSnapshot(join(ROOT, 'docs', kind, `${component.type}.md`))
  })

  test.each([...registry[kind]])('the example on the page of $type is valid', async (component) => {
    const [, example] = /```yaml\n([^]*?)```/.exec(componentPage(component))!
    const { problems } = await loadConfig([`yaml:${example}`], { registry, env: {}, cwd: ROOT })
    expect(problems.filter(({ path }) => path.startsWith(kind))).toEqual([])
  })

  test('have no page without a component', () => {
    const pages = types.map((type) => `docs/${kind}/${type}.md`)
    expect(files(`docs/${kind}`).filter((page) => !pages.includes(page))).toEqual([])
  })
})

/** npm leaves out what it cannot find when it writes the lock, and then `npm ci` refuses the lock, everywhere. */
test('package-lock.json knows the packages of every platform', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { optionalDependencies?: object }> }
  const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => !packages[`node_modules/${name}`] && !packages[`${place}/node_modules/${name}`])
      .map((name) => `edit package-lock.json: ${name}, which ${place} wants, is not in it`),
  )
  expect(missing).toEqual([])
})

describe('documents', () => {
  test.each(folders)('docs/architecture.md says what %s/ is for', (folder) => {
    expect(read('docs/architecture.md')).toContain(`\`${folder}/\``)
  })

  test.each(KINDS)('docs/pipeline_yaml.md links the page of each component: %s', (kind) => {
    const page = read('docs/pipeline_yaml.md')
    expect(registry[kind].map(({ type }) => `](${kind}/${type}.md)`).filter((link) => !page.includes(link))).toEqual([])
  })

  test.each(documents())('every link in %s leads somewhere', (file) => {
    const broken = [...read(file).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].filter(([, path, anchor]) => {
      const target = path ? join(dirname(file), path) : file
      return !existsSync(join(ROOT, target)) || (anchor && !anchors(target).includes(anchor))
    })
    expect(broken.map(([link]) => `edit ${file}: ${link}`)).toEqual([])
  })

  test('README.md has at most 150 lines, CONTRIBUTING.md 60, a decision 40', () => {
    const limits: Record<string, number> = { 'README.md': 150, 'CONTRIBUTING.md': 60 }
    const long = documents().filter((file) => {
      const limit = file.startsWith('docs/decisions/') ? 40 : (limits[file] ?? Infinity)
      return read(file).split('\n').length - 1 > limit
    })
    expect(long).toEqual([])
  })
})

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

/** Every file below a folder, as paths from the root; none where the folder does not exist (yet). */
function files(folder: string): string[] {
  if (!existsSync(join(ROOT, folder))) return []
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file))
}

function sources(folder: string): string[] {
  return files(folder).filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
}

/** The files of a kind's folder, without its index and its tests. */
function components(kind: string): string[] {
  return sources(kind).filter((file) => file !== `${kind}/index.ts`)
}

/** Files of the repository that a file imports, statically, dynamically or for types only, as paths from its root. */
function imports(file: string): string[] {
  const { importedFiles } = ts.preProcessFile(read(file), true, true)
  return importedFiles.filter(({ fileName }) => fileName.startsWith('.')).map(({ fileName }) => join(dirname(file), fileName))
}

function* undocumented(fields: Fields, path: string): Generator<string> {
  for (const [name, field] of Object.entries(fields) as [string, Field<unknown>][]) {
    const place = `${path}::${name}`
    if (!/\.$/.test(field.doc)) yield place
    yield* undocumented(field.fields ?? field.items?.fields ?? {}, place)
  }
}

function documents(): string[] {
  return ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', ...files('docs').filter((file) => file.endsWith('.md'))]
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(file: string): string[] {
  const headings = [...read(file).matchAll(/^#+ (.*)$/gm)].map((match) => match[1]!)
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
