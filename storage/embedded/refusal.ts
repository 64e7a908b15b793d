/** What a server of ClickHouse's says no with: an HTTP status, and its own code, text and name of it. */
export class Refusal extends Error {
  readonly status: number
  readonly code: number
  constructor(status: number, code: number, name: string, text: string) {
    super(`Code: ${code}. DB::Exception: ${text}. (${name})`)
    this.status = status
    this.code = code
  }
}
