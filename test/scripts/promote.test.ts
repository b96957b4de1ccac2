import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { promotedText, promotions } from '../../scripts/promote/promote.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const file = (name: string, digit?: string) => {
  const text = readFileSync(join(ROOT, `environments/${name}.json`), 'utf8')
  return { name, text: digit === undefined ? text : text.replaceAll('0'.repeat(64), digit.repeat(64)) }
}

test('the digests of one environment come into the other, in its own registry, and nothing else changes', () => {
  const target = file('prod', 'b')

  const promoted = promotions(file('dev', 'a'), target)
  const text = promotedText(target, promoted)

  expect(promoted.map(({ image }) => image).sort()).toEqual(['agentHost', 'api', 'egressProxy', 'toolbox'])
  expect(text).toBe(target.text.replaceAll('b'.repeat(64), 'a'.repeat(64)))
  expect(text).not.toContain('agentweaverdev.azurecr.io')
})

test.each([
  ['images that were never published', file('dev'), file('prod', 'b'), /no published/],
  ['a preview', file('pr-example', 'a'), file('prod', 'b'), /merging its branch/],
  [
    'an image of a foreign registry',
    {
      name: 'dev',
      text: file('dev', 'a').text.replace(
        'agentweaverdev.azurecr.io/agentweaver/api@',
        'evil.example.com/agentweaver/api@',
      ),
    },
    file('prod', 'b'),
    /registry/,
  ],
  ['a file that is wrong', { name: 'dev', text: '{}' }, file('prod'), /environments\/dev\.json/],
])('%s is not promoted', (...[, source, target, expected]) => {
  expect(() => promotions(source, target)).toThrow(expected)
})
