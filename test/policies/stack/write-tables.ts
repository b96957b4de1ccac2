import { readFileSync, writeFileSync } from 'node:fs'
import { withRules } from './tables.ts'

/** Writes the table of rules of docs/stack-policy.md anew. */
const page = new URL('../../../docs/stack-policy.md', import.meta.url)
writeFileSync(page, withRules(readFileSync(page, 'utf8')))
