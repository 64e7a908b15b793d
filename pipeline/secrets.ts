// Compares secrets in a time that does not tell where they differ, nor how long the known one is.

import { createHash, timingSafeEqual } from 'node:crypto'

export const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

export const sameSecret = (offered: string, known: string): boolean => timingSafeEqual(digest(offered), digest(known))
