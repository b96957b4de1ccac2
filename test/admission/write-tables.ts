import { readFileSync, writeFileSync } from 'node:fs'
import { withTables } from './tables.ts'

/** Writes the generated tables of docs/admission.md anew. */
const page = new URL('../../docs/admission.md', import.meta.url)
writeFileSync(page, withTables(readFileSync(page, 'utf8')))
