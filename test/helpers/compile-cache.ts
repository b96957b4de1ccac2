import { fileURLToPath } from 'node:url'

/**
 * Environment variables for a child process of a test. Node.js stores compiled code in this folder, which halves the
 * next start of the same sources. Node.js checks each entry against its source.
 */
export const COMPILE_CACHE = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/node', import.meta.url)),
} as const

/** Adds it to the environment of this process, which the workers of a test run inherit, and the programs that they start. */
export const shareCompileCache = () => Object.assign(process.env, COMPILE_CACHE)
