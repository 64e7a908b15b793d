// How much may be asked at the same time, and by each key in a minute. What is beyond is told to come again: a queue would only make
// its clients wait until they give up.

import { ApiError } from './errors.ts'

export interface LimitOptions {
  readonly max_requests: number
  /** 0: no limit, as below. */
  readonly max_requests_per_key: number
  readonly requests_per_minute_per_key: number
}

export interface Limits {
  /** Takes a place for a request, and returns how to give it back. Throws ApiError 429 or 503. */
  enter(key: string): () => void
  readonly running: number
}

interface Usage {
  running: number
  /** A bucket of tokens, one for each request, that is filled evenly. */
  tokens: number
  filledAt: number
}

const MINUTE_MS = 60_000
const BUSY_RETRY_MS = 1_000
/** Keys that are remembered: those with requests under way always, the others as long as their bucket is not full. */
const SWEEP_AT = 1_000

export function createLimits(options: LimitOptions, now: () => number = Date.now): Limits {
  const { max_requests, max_requests_per_key, requests_per_minute_per_key: perMinute } = options
  const keys = new Map<string, Usage>()
  let running = 0

  function enter(key: string): () => void {
    if (running >= max_requests) throw busy(503, `the endpoint answers ${max_requests} requests at a time`, BUSY_RETRY_MS)
    const usage = usageOf(key)
    if (max_requests_per_key > 0 && usage.running >= max_requests_per_key)
      throw busy(429, `this key has ${usage.running} requests under way, and may have no more`, BUSY_RETRY_MS)
    if (perMinute > 0) {
      fill(usage)
      if (usage.tokens < 1)
        throw busy(429, `this key may send ${perMinute} requests in a minute`, ((1 - usage.tokens) * MINUTE_MS) / perMinute)
      usage.tokens--
    }
    usage.running++
    running++
    let left = false
    return () => {
      if (left) return
      left = true
      usage.running--
      running--
    }
  }

  function usageOf(key: string): Usage {
    const known = keys.get(key)
    if (known) return known
    if (keys.size >= SWEEP_AT) sweep()
    const fresh = { running: 0, tokens: perMinute, filledAt: now() }
    keys.set(key, fresh)
    return fresh
  }

  function fill(usage: Usage): void {
    const at = now()
    usage.tokens = Math.min(perMinute, usage.tokens + ((at - usage.filledAt) * perMinute) / MINUTE_MS)
    usage.filledAt = at
  }

  function sweep(): void {
    for (const [key, usage] of keys) {
      fill(usage)
      if (usage.running === 0 && usage.tokens >= perMinute) keys.delete(key)
    }
  }

  return {
    enter,
    get running() {
      return running
    },
  }
}

const busy = (status: number, message: string, retryAfterMs: number) =>
  new ApiError(status, status === 429 ? 'rate_limit_exceeded' : 'overloaded', message, { retryAfterMs })
