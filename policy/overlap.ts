/** How many characters at the end of `text` may be the beginning of `word`. */
export function overlap(text: string, word: string): number {
  for (let length = Math.min(text.length, word.length - 1); length > 0; length--) if (text.endsWith(word.slice(0, length))) return length
  return 0
}
