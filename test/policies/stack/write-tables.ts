import { readFileSync, writeFileSync } from 'node:fs'
import { withRules } from './tables.ts'

/** Updates the table of rules in docs/stack-policy.md. */
const page = new URL('../../../docs/stack-policy.md', import.meta.url)
writeFileSync(page, withRules(readFileSync(page, 'utf8')))
