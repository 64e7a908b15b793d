// What every subcommand is: arguments in, exit code out, and the outside world as a parameter,
// so that tests run commands without a process.

export interface Io {
  stdout(text: string): void
  stderr(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

export type Command = (args: string[], io: Io) => Promise<number>
