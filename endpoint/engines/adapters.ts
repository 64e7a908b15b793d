// Publishes the versions of a policy to vLLM as LoRA adapters, which it loads while it serves
// (https://docs.vllm.ai/en/latest/features/lora.html, VLLM_ALLOW_RUNTIME_LORA_UPDATING). Version 7 of `policy` is its model `policy@7`.

import type { Context } from '../../pipeline/component.ts'
import type { Policies, PolicyVersion } from '../../storage/policies.ts'
import { ApiError } from '../errors.ts'
import { followLive, type Following } from '../versions.ts'

export interface Adapters {
  start(): void
  /** The version that a request gets and what the server calls it; undefined: the base, as long as no version is live. */
  serve(pinned: number | undefined): Promise<{ readonly version: number; readonly model: string } | undefined>
  stop(): Promise<void>
}

/** So many are left with the server, for requests that pin them or are under way. */
const KEPT = 4
const TIMEOUT_MS = 60_000

export function publishedAdapters(
  url: string,
  policy: string,
  api_key: string | null,
  policies: () => Policies,
  context: Pick<Context, 'count' | 'log'>,
): Adapters {
  /** Versions that the server has, the one that was loaded last at the end. */
  const loaded = new Set<number>()
  let live: number | undefined
  let following: Following | undefined
  const nameOf = (version: number) => `${policy}@${version}`

  async function post(route: string, body: object): Promise<{ ok: boolean; said: string }> {
    const headers = { 'content-type': 'application/json', ...(api_key !== null && { authorization: `Bearer ${api_key}` }) }
    const request = { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS) }
    const reply = await fetch(`${url.replace(/\/$/, '')}/${route}`, request)
    return { ok: reply.ok, said: (await reply.text()).slice(0, 200) }
  }

  async function load({ version, path }: PolicyVersion): Promise<void> {
    const { ok, said } = await post('load_lora_adapter', { lora_name: nameOf(version), lora_path: path })
    // The server outlives us: it may have the version from an earlier run of ours.
    if (!ok && !/already/i.test(said)) throw new Error(`${url} does not load ${nameOf(version)}: ${said}`)
    loaded.delete(version)
    loaded.add(version)
    const surplus = [...loaded].filter((other) => other !== live && other !== version).slice(0, Math.max(0, loaded.size - KEPT))
    for (const old of surplus) {
      loaded.delete(old)
      await post('unload_lora_adapter', { lora_name: nameOf(old) })
    }
  }

  async function loadPinned(version: number): Promise<void> {
    const known = (await policies().versions(policy)).find((row) => row.version === version)
    if (!known?.path)
      throw new ApiError(404, 'model_not_found', `there is no version ${version} of the policy "${policy}"`, { param: 'model' })
    await load(known)
  }

  return {
    start() {
      const take = async (version: PolicyVersion) => {
        await load(version)
        live = version.version
      }
      following = followLive(policies(), policy, take, async () => {}, context)
    },
    async serve(pinned) {
      const version = pinned ?? live
      if (version === undefined) return undefined
      if (!loaded.has(version)) await loadPinned(version)
      return { version, model: nameOf(version) }
    },
    stop: async () => following?.stop(),
  }
}
