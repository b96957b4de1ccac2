import fc from 'fast-check'
import { expect, test } from 'vitest'
import { names, PreviewSlug } from '../../contracts/names.ts'
import { previewSlug, previewStack } from '../../infra/model/preview-slug.ts'

test.each([
  ['example', 'example-50d858'],
  ['feature/Add-Kata_pool', 'feature-add-kata-poo-'],
  ['--stack=prod', 'stack-prod-'],
  ['$(touch /tmp/x); `id`', 'touch-tmp-x-id-'],
  ['🦄🦄', 'branch-'],
])('the branch %j has a slug that starts with %s', (branch, start) => {
  const slug = previewSlug(branch)

  expect(slug.startsWith(start)).toBe(true)
  expect(PreviewSlug.safeParse(slug).success).toBe(true)
})

test('a branch of 200 characters with slashes, capitals and emoji has a slug that is valid and stable', () => {
  const branch = `Feature/🦄-${'Ünïcode/'.repeat(30)}`.slice(0, 200)

  expect(PreviewSlug.safeParse(previewSlug(branch)).success).toBe(true)
  expect(previewSlug(branch)).toBe(previewSlug(branch))
  expect(previewStack(previewSlug(branch)).length).toBeLessThanOrEqual(30)
})

test('branches that are alike when made readable have different slugs', () => {
  const alike = ['fix/a', 'Fix/A', 'fix-a', 'fix//a', 'fix_a', 'fix.a', '🦄fix a']
  const slugs = alike.map(previewSlug)

  expect(new Set(slugs.map((slug) => slug.slice(0, -7)))).toEqual(new Set(['fix-a']))
  expect(new Set(slugs).size).toBe(alike.length)
})

test('any name has a valid slug, and every name made of it is a DNS label', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 260, unit: 'binary' }), (branch) => {
      const slug = PreviewSlug.parse(previewSlug(branch))
      const { namespaces, serviceAccounts } = names({ kind: 'preview', slug })
      for (const name of [...Object.values(namespaces), ...Object.values(serviceAccounts)])
        expect(name).toMatch(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])$/)
    }),
    { numRuns: 2000 },
  )
})

test('no name is no branch', () => {
  expect(() => previewSlug('')).toThrow(/name of a branch/)
})
