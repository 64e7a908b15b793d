// Clients that are not written in JavaScript, against the receiver. receivers/otlp.test.ts has OpenTelemetry's exporters for JavaScript.

import { execFile, execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

import { expect, test } from 'vitest'

import { readItem } from '../data/scan.ts'
import type { Span } from '../data/span.ts'
import { leydenPeer } from './otlp_peer.ts'
import { chat, traces } from './spans.ts'

const run = promisify(execFile)

function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

test.skipIf(!works('curl', '--version'))('curl posts OTLP/JSON (skipped where curl is not installed)', async () => {
  const { batches, http } = await leydenPeer()
  const body = JSON.stringify(traces('curl', [chat('call')]))
  const json = ['-H', 'content-type: application/json', '-d', body]
  const post = (...more: string[]) => run('curl', ['-sS', '--fail-with-body', ...more, ...json, `${http}/v1/traces`])
  expect((await post()).stdout).toBe('{}')
  // As it is told to wait before it sends a large body.
  expect((await post('-H', 'expect: 100-continue', '--http1.1')).stdout).toBe('{}')
  expect(batches.map((batch) => (readItem(batch, 0) as Span).name)).toEqual(['chat policy', 'chat policy'])
})

test.skipIf(!works('python3', '-c', 'import opentelemetry.exporter.otlp.proto.grpc, opentelemetry.exporter.otlp.proto.http'))(
  "Python's exporters send spans over gRPC and HTTP (skipped where python3 cannot import opentelemetry.exporter.otlp)",
  async () => {
    const { batches, grpc, http } = await leydenPeer()
    const { stdout } = await run('python3', [join(import.meta.dirname, 'peers/otlp_exporter.py'), grpc, http.replace('http://', '')])
    const spans = batches.map((batch) => readItem(batch, 0) as Span)
    expect(stdout.trim().split('\n')).toEqual(['grpc', 'http', 'http gzip'])
    expect(spans.map(({ name, attributes, scope }) => [name, { ...attributes }, scope.name])).toEqual(
      ['grpc', 'http', 'http gzip'].map((name) => [name, { tokens: [1, 2], half: 0.5 }, 'peer']),
    )
  },
)
