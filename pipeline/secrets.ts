// Secrets: compared so that time tells nothing, and left out of what is written.

import { createHash, timingSafeEqual } from 'node:crypto'

export const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Takes as long wherever the two differ, and whatever their lengths. */
export const sameSecret = (offered: string, known: string): boolean => timingSafeEqual(digest(offered), digest(known))

/** A URL may carry a password. */
export const withoutPasswords = (text: string): string => text.replace(/(:\/\/[^/@\s"]*?:)[^/@\s"]+@/g, '$1[REDACTED]@')
