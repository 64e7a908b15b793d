// What every subcommand is: arguments in, exit code out, and the outside world as a parameter,
// so that tests run commands without a process.

export interface Io {
  stdout(text: string): void
  stderr(text: string): void
  /** All of standard input, where there is one. */
  stdin?(): Promise<string>
  /** Whether somebody sits at a terminal: answers may be prettier then. */
  readonly terminal?: boolean
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

export type Command = (args: string[], io: Io) => Promise<number>
