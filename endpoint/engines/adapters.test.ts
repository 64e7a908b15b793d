import { afterAll, beforeAll, expect, test } from 'vitest'

import { policiesOf } from '../../storage/policies.ts'
import { startEndpoint, startUpstream } from '../../test/openai.ts'
import { testStorage, type TestStorage } from '../../test/storage.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage()
})
afterAll(() => storage.close())

test('versions of a policy are loaded by vLLM as adapters, answer by name, and are unloaded when many came after them', async () => {
  const loaded = new Map<string, string>()
  const { url, asked } = await startUpstream((body, { url: path }, response) => {
    const plain = (status: number, text: string) => response.writeHead(status, { 'content-type': 'text/plain' }).end(text)
    if (path === '/v1/load_lora_adapter') {
      if (body.lora_path.endsWith('broken')) return plain(400, 'no adapter_config.json')
      loaded.set(body.lora_name, body.lora_path)
      return plain(200, 'Success')
    }
    if (path === '/v1/unload_lora_adapter') return plain(loaded.delete(body.lora_name) ? 200 : 404, '')
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: 'c', model: body.model, choices }))
  })
  const policies = policiesOf(storage.client)
  const publish = (version: number, path = `/adapters/${version}`) =>
    policies.publish({ policy: 'p', version, base: '/base', path, parent: version - 1, status: 'live', trained_on: {}, metrics: {} })
  const options = { models: { mine: { engine: 'upstream', url, model: 'base', policy: 'p' } } }
  const endpoint = await startEndpoint(options, { extensions: { clickhouse_storage: storage } })
  const answeredBy = async (model = 'mine') => {
    const { model: by } = await endpoint.client.chat.completions.create({ model, messages: [{ role: 'user', content: 'hi' }] })
    return by
  }
  const until = async (model: string) => {
    for (const end = Date.now() + 5_000; (await answeredBy()) !== model && Date.now() < end;)
      await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await answeredBy()).toBe(model)
  }

  expect(await answeredBy()).toBe('base')
  for (const version of [1, 2, 3, 4, 5]) {
    await publish(version)
    await until(`p@${version}`)
  }
  expect(loaded.get('p@5')).toBe('/adapters/5')
  expect([...loaded.keys()]).toEqual(['p@2', 'p@3', 'p@4', 'p@5'])
  expect(await answeredBy('mine@3')).toBe('p@3')
  expect(await answeredBy('mine@1')).toBe('p@1')
  await expect(answeredBy('mine@9')).rejects.toMatchObject({ status: 404, code: 'model_not_found' })

  await publish(6, '/adapters/broken')
  while (!endpoint.context.counts.leyden_policy_versions_rejected) await new Promise((resolve) => setTimeout(resolve, 20))
  expect(await answeredBy()).toBe('p@5')
  // Those that were answered, and the one that was not.
  const calls = await endpoint.calls(asked.filter(({ path }) => path === '/v1/chat/completions').length + 1)
  expect(calls.at(-1)).toMatchObject({ policy_version: 5, request_model: 'mine', response_model: 'p@5' })
})
