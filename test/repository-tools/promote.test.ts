import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { importArguments, promotedText, promotions } from '../../tools/promote/promote.ts'

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

test('an image is copied by digest out of the registry of another subscription, which is named', () => {
  const [api] = promotions(file('dev', 'a'), file('prod', 'b')).filter(({ image }) => image === 'api')
  if (!api) throw new Error('no api')

  expect(importArguments(api, 'b0000000-0000-4000-8000-000000000000', 'dev').join(' ')).toBe(
    `acr import --name agentweaverprod --registry /subscriptions/b0000000-0000-4000-8000-000000000000/resourceGroups/agentweaver-dev/providers/Microsoft.ContainerRegistry/registries/agentweaverdev --source agentweaver/api@sha256:${'a'.repeat(64)} --repository agentweaver/api`,
  )
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
