import { describe, expect, it } from 'vitest'
import { MAX_PUSH_BRANCH, PushResults } from '../../contracts/push.ts'
import { bearer, startApp } from './harness.ts'
import { makeFixture } from './sample-requests.ts'

const GOOD = ['fix', 'fix-login', 'a/b_c/d.e', '2026', 'a'.repeat(100)]
const BAD = [
  '',
  ' ',
  '/',
  'a/',
  '/a',
  'a//b',
  '.',
  '..',
  '../main',
  'a/../../main',
  'a..b',
  '.git',
  'a/.hidden',
  'a.',
  'a.lock',
  'a.lock/b',
  '-a',
  'a b',
  'a\nb',
  'a\0b',
  'a:refs/heads/main',
  '+a',
  'a^',
  'a~1',
  'a*',
  'a?',
  'a[b',
  'a\\b',
  'a@{1}',
  'ä',
  '$(id)',
  '`id`',
  'a/'.repeat(9).concat('a'),
  'a'.repeat(101),
  `${'a/'.repeat(7)}${'b'.repeat(MAX_PUSH_BRANCH)}`,
]

describe('the name of a branch of a push', () => {
  it.for(GOOD)('may be %j', (branch) => {
    expect(PushResults.safeParse({ branch }).success).toBe(true)
  })

  it.for(BAD)('is refused before anything is done: %j', async (branch) => {
    const harness = startApp()
    const { runId } = await makeFixture(harness)
    const before = harness.service.calls.length
    const url = `/api/runs/${runId}/push`
    const headers = bearer(harness.keys.ada)

    const answer = await harness.app.inject({ method: 'POST', url, headers, body: { branch } })

    expect([answer.statusCode, answer.json().code]).toEqual([400, 'invalid_request'])
    expect(harness.service.calls.length).toBe(before)
  })
})
