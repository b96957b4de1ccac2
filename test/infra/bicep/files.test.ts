import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../state-rig.ts'
import { syntaxProblems } from './syntax.ts'

const FILES = readdirSync(join(ROOT, 'infra'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.bicep'))
  .map((name) => join('infra', name))

test('finds the Bicep files', () => {
  expect(FILES).toContain(join('infra', 'state', 'state.bicep'))
})

test.each(FILES)('%s has no syntax error', (file) => {
  expect(syntaxProblems(readFileSync(join(ROOT, file), 'utf8'))).toEqual([])
})
