import { createHash, timingSafeEqual } from 'node:crypto'

const digest = (text: string) => createHash('sha256').update(text, 'utf8').digest()

/** Whether two secrets are equal, in a time that tells neither their contents nor their lengths apart. */
export const equalsInConstantTime = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))
