import { createHash, timingSafeEqual } from 'node:crypto'

const digest = (text: string) => createHash('sha256').update(text, 'utf8').digest()

/** Compares two secrets. The time taken depends neither on their contents nor on their lengths. */
export const equalsInConstantTime = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))
