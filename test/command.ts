// A subcommand run in this process, with what it wrote.

import type { Command } from '../cli/command.ts'

export async function runCommand(
  command: Command,
  args: string[],
  { env = {}, cwd = process.cwd() }: { env?: Record<string, string>; cwd?: string } = {},
) {
  let [stdout, stderr] = ['', '']
  const code = await command(args, { env, cwd, stdout: (text) => void (stdout += text), stderr: (text) => void (stderr += text) })
  return { code, stdout, stderr }
}
