import { expect, test } from 'vitest'
import * as z from 'zod'
import { issueMessage } from '../../runtime/kit/issue-message.ts'

const count = z.coerce.number().int().min(1).max(200)

test.each<[what: string, ...wrong: [z.ZodType, unknown, string]]>([
  ['a word for a number', count, 'many', 'must be a number'],
  ['a part of a number', count, '1.5', 'must be a whole number'],
  ['too few', count, '0', 'must be at least 1'],
  ['too many', count, '201', 'must be at most 200'],
  ['none where some are needed', z.number().positive(), 0, 'must be more than 0'],
  ['an empty text', z.string().min(1), '', 'must not be empty'],
  ['a long text', z.string().max(4000), 'x'.repeat(4001), 'must have at most 4,000 characters'],
  ['nothing', z.string(), undefined, 'is missing'],
  ['another word', z.enum(['once', 'run']), 'all', 'must be one of once, run'],
  [
    'another kind',
    z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('say') }),
      z.object({ kind: z.literal('tool') }),
    ]),
    { kind: 'x' },
    'must be one of say, tool',
  ],
  [
    'a name with a space',
    z.record(z.string().regex(/^[a-z]+$/, 'must be of a-z'), z.string()),
    { 'a b': '' },
    'is not a name that is allowed: must be of a-z',
  ],
  ["the schema's own message", z.string().regex(/^x$/, 'must be x'), 'y', 'must be x'],
])('%s is described in plain words', (_what, ...[schema, value, expected]) => {
  const { error } = schema.safeParse(value, { error: issueMessage })

  expect(error?.issues.map(({ message }) => message)).toEqual([expected])
})
