/** DAPO's soft punishment of long answers (Yu et al. 2025, arXiv 2503.14476, eq. 13): from 0 to −1 over the last `buffer` tokens. */
export function overlongPenalty(length: number, maxLength: number, buffer: number): number {
  return Math.max(-1, Math.min(0, (maxLength - buffer - length) / buffer))
}
