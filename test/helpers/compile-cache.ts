import { fileURLToPath } from 'node:url'

/**
 * Part of the environment of a process that a test starts: Node keeps there what it compiled, which halves the
 * next start of the same sources. Node checks each entry against its source.
 */
export const COMPILE_CACHE = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/node', import.meta.url)),
} as const
