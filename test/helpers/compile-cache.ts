import { fileURLToPath } from 'node:url'

/**
 * Environment variables for a child process of a test. Node.js stores compiled code in this folder, which halves the
 * next start of the same sources. Node.js checks each entry against its source.
 */
export const COMPILE_CACHE = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/node', import.meta.url)),
} as const
