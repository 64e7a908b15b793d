// V8 compiles, and frees memory, on threads of its own. Where these have the one core that the process has, whoever answers waits for them, up to
// 4 ms each time: with the lowest priority they run when it rests. To be preloaded (`node --import`) where the slowest answer matters most,
// with `--no-parallel-scavenge`, or collecting garbage would wait for them. Linux alone has priorities of threads; elsewhere nothing happens.

import { readdirSync } from 'node:fs'
import { constants, setPriority } from 'node:os'

/** node's own number where `--v8-pool-size` says none. */
const USUAL = 4
const said = process.execArgv.map((flag) => /^--v8-pool-size=(\d+)$/.exec(flag)?.[1]).findLast(Boolean)
const poolSize = Number(said ?? USUAL)

// They are the first that a process starts, beside one that keeps their timers. Those of libuv, for files and gzip, follow, and have work that is waited for.
for (const thread of threadsByAge().slice(0, poolSize + 1)) setPriority(thread, constants.priority.PRIORITY_LOW)

function threadsByAge(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc/self/task')
    .map(Number)
    .filter((thread) => thread !== process.pid)
    .sort((one, other) => one - other)
}
