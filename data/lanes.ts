// Some at a time.

export interface Lane {
  <T>(task: () => Promise<T>): Promise<T>
  /** Resolves when none runs and none waits. */
  idle(): Promise<void>
}

/** Runs up to `width` tasks at once, the others in the order they came. */
export function lanes(width: number): Lane {
  const waiting: (() => void)[] = []
  const resting: (() => void)[] = []
  let running = 0

  async function lane<T>(task: () => Promise<T>): Promise<T> {
    if (running === width) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await task()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else if (--running === 0) for (const rest of resting.splice(0)) rest()
    }
  }

  const idle = () => (running === 0 ? Promise.resolve() : new Promise<void>((resolve) => resting.push(resolve)))
  return Object.assign(lane, { idle })
}
