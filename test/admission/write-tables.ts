import { readFileSync, writeFileSync } from 'node:fs'
import { withTables } from './tables.ts'

/** Regenerates the tables in docs/admission.md. */
const page = new URL('../../docs/admission.md', import.meta.url)
writeFileSync(page, withTables(readFileSync(page, 'utf8')))
