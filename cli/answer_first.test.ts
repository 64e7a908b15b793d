// V8's helper threads in a process that preloads answer_first.ts.

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

const PRELOADED = pathToFileURL(join(dirname(createRequire(import.meta.url).resolve('#leyden')), 'answer_first.js')).href
/** Prints how nice each thread is, by its age: the main thread is the first. */
const NICENESS = `
  const { readdirSync, readFileSync } = require('node:fs')
  const nice = (thread) => Number(readFileSync('/proc/self/task/' + thread + '/stat', 'utf8').replace(/.*\\) /, '').split(' ')[16])
  console.log(JSON.stringify(readdirSync('/proc/self/task').map(Number).sort((a, b) => a - b).map(nice)))
`

test.runIf(process.platform === 'linux')(
  'V8 compiles and frees memory when the thread that answers rests; what others do is done as ever',
  async () => {
    const flags = ['--v8-pool-size=2', '--import', PRELOADED, '-e', NICENESS]
    const [main, ...others] = JSON.parse((await promisify(execFile)(process.execPath, flags)).stdout) as [number, ...number[]]
    expect(others.slice(0, 3)).toEqual([19, 19, 19])
    expect(others.length).toBeGreaterThan(3)
    for (const nice of others.slice(3)) expect(nice).toBe(main)
  },
)
