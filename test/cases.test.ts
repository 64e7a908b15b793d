// Every folder of test/cases: a bug report is first a failing one.

import { join } from 'node:path'

import { expect, test } from 'vitest'

import { test as testCases } from '../cli/test.ts'
import { runCommand } from './command.ts'

test('what the spans of each case should become is what they become', async () => {
  const { code, stdout, stderr } = await runCommand(testCases, ['test/cases'], { cwd: join(import.meta.dirname, '..') })
  expect(stdout + stderr).not.toContain('FAIL')
  expect(code).toBe(0)
})
