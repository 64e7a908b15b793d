import { spawnSync } from 'node:child_process'
import { hostname } from 'node:os'

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'

import { testStorage, type TestStorage } from '../test/storage.ts'
import { lease } from './lease.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
beforeEach(() => storage.client.command({ query: 'TRUNCATE TABLE leases' }))
afterAll(() => storage.close())

const reports: (string | null)[] = []
const taking = () =>
  lease({
    client: storage.client,
    name: 'credit',
    what: 'credit is written',
    run: (attempt) => attempt(),
    report: (said) => void reports.push(said),
  })

const held = (host: string, pid: number, seconds: number) =>
  storage.client.command({
    query: `INSERT INTO leases VALUES ('credit', 'another', '${host}', ${pid}, now64(3) + INTERVAL ${seconds} SECOND, now64(3) - INTERVAL 1 SECOND)`,
  })

test('one of two has it, and the other when it is given up', async () => {
  const [first, second] = [taking(), taking()]
  await first.hold()
  await expect(second.hold()).rejects.toThrow(`credit is written by process ${process.pid} on ${hostname()}`)
  await first.hold()
  await first.release()
  await second.hold()
  expect(reports).toEqual([expect.stringContaining('stop it first'), null])
  await expect(first.hold()).rejects.toThrow('stop it first')
  await second.release()
})

test('that of another machine is waited for until it ends', async () => {
  await held('elsewhere', 1, 30)
  await expect(taking().hold()).rejects.toThrow('credit is written by process 1 on elsewhere')
  await storage.client.command({ query: 'TRUNCATE TABLE leases' })
  await held('elsewhere', 1, -1)
  const one = taking()
  await one.hold()
  await one.release()
})

test('that of a process of this machine that is gone ends at once', async () => {
  await held(hostname(), spawnSync('true').pid, 30)
  const one = taking()
  await one.hold()
  await one.release()
})
