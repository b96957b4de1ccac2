import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { CredentialEchoed, EchoSearch } from '../../runtime/egress/credentials/echo.ts'
import { findPlaceholder, withCredential } from '../../runtime/egress/credentials/insert.ts'
import { CredentialValues } from '../../runtime/egress/credentials/values.ts'

const GIT = 'ghp_placeholderOfTheCredentialForGit0001'
const OTHER = 'placeholder-of-another-credential'
const VALUE = 'ghp_the/real+value=of"this"credential001'
const placeholders = [
  { credential: 'git', value: GIT },
  { credential: 'other', value: OTHER },
]
const find = (headers: string[], path = '/') =>
  findPlaceholder(headers, path, { credential: 'git', placeholders })
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

/** The headers that the destination gets, or the reason of the refusal. */
const sent = (headers: string[], path?: string) => {
  const found = find(headers, path)
  return found.ok ? withCredential(headers, found, VALUE) : found.reason
}

describe('the placeholder of a credential', () => {
  it.for([
    ['Authorization', `Bearer ${GIT}`, `Bearer ${VALUE}`],
    ['authorization', `token ${GIT}`, `token ${VALUE}`],
    ['Authorization', basic(`x-access-token:${GIT}`), basic(`x-access-token:${VALUE}`)],
    ['Authorization', basic(`${GIT}:x-oauth-basic`), basic(`${VALUE}:x-oauth-basic`)],
    ['Private-Token', GIT, VALUE],
    ['x-api-key', GIT, VALUE],
  ] as const)('is replaced in %s: %s', ([name, given, expected]) => {
    expect(sent(['Host', 'h', name, given])).toEqual([
      'Host',
      'h',
      name,
      expected,
      'Accept-Encoding',
      'identity',
    ])
  })

  it('is not needed for a request without credentials', () => {
    expect(find(['Host', 'h', 'Accept', '*/*'])).toMatchObject({ ok: true, at: undefined })
  })

  it('makes the destination answer whole and without an encoding', () => {
    const headers = ['Accept-Encoding', 'gzip', 'Range', 'bytes=0-1', 'If-Range', '"a"']

    expect(sent(['Authorization', `Bearer ${GIT}`, ...headers])).toEqual([
      ...['Authorization', `Bearer ${VALUE}`, 'Accept-Encoding', 'identity'],
    ])
  })

  it.for([
    ['another credential of the run', ['Authorization', `Bearer ${OTHER}`], 'other is not for this host'],
    ['another credential, in Basic', ['Authorization', basic(`a:${OTHER}`)], 'other is not for this host'],
    [
      'the placeholder of another run',
      ['Authorization', `Bearer ${GIT.replace('0001', '0002')}`],
      'no other',
    ],
    ['a credential of the agent', ['Authorization', 'Bearer ghp_of_the_attacker'], 'no other credential'],
    ['a credential in a header with underscores', ['X_API_KEY', 'mine'], 'no other credential'],
    ['a cookie', ['Cookie', 'session=of-the-attacker'], 'no other credential'],
    ['a part of the placeholder', ['Authorization', `Bearer ${GIT.slice(0, -1)}`], 'no other credential'],
    ['the placeholder and more', ['Authorization', `Bearer ${GIT}x`], 'no other credential'],
    ['another scheme', ['Authorization', `Digest ${GIT}`], 'no other credential'],
    ['two headers', ['Authorization', `Bearer ${GIT}`, 'Private-Token', 'mine'], 'two headers'],
    ['the header twice', ['Authorization', `Bearer ${GIT}`, 'authorization', 'Bearer a'], 'two headers'],
    ['another header', ['X-Comment', `see ${GIT}`], 'in the header X-Comment'],
    ['another header, encoded', ['X-Auth', basic(`a:${GIT}`)], 'in the header X-Auth'],
  ] as const)('is refused with %s', ([_name, headers, reason]) => {
    expect(sent([...headers])).toContain(reason)
  })

  it('is refused in a path', () => {
    expect(sent(['Authorization', `Bearer ${GIT}`], `/a?token=${GIT}`)).toContain(
      'the path has a placeholder',
    )
  })
})

describe('a response', () => {
  const search = new EchoSearch(VALUE)
  const through = async (pieces: readonly Buffer[]) => {
    const chunks: Buffer[] = []
    const body = Readable.from(pieces).pipe(search.body())
    const error = await body.forEach((chunk: Buffer) => void chunks.push(chunk)).catch((thrown) => thrown)
    return { text: Buffer.concat(chunks).toString('latin1'), error }
  }
  const cut = (bytes: Buffer, size: number) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    )

  it('passes unchanged if it does not contain the credential', async () => {
    const binary = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))
    const nearly = fc
      .constantFrom(VALUE.slice(0, -1), VALUE.slice(1), 'ghp_')
      .map((text) => Buffer.from(text))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(binary, nearly)), async (pieces) => {
        // A byte and the rest of the credential may meet.
        fc.pre(!Buffer.concat(pieces).includes(VALUE))
        const { text, error } = await through(pieces)
        expect(error).toBeUndefined()
        expect(text).toBe(Buffer.concat(pieces).toString('latin1'))
      }),
    )
  })

  const hex = Buffer.from(VALUE).toString('hex')
  it.for([
    ['raw', VALUE],
    ['base64', Buffer.from(`user:${VALUE}`).toString('base64')],
    ['base64 for URLs', Buffer.from(`us:${VALUE}`).toString('base64url')],
    ['hex', hex],
    ['upper hex', hex.toUpperCase()],
    ['percent', encodeURIComponent(VALUE)],
    ['JSON', JSON.stringify(VALUE)],
  ] as const)(
    'is cut off before the credential in the form %s, also across chunks',
    async ([_name, form]) => {
      for (const size of [1, 7, 10_000]) {
        const { text, error } = await through(cut(Buffer.from(`\0before ${form} after`), size))

        expect(error).toBeInstanceOf(CredentialEchoed)
        expect('\0before "').toContain(text)
      }
      expect(search.isInHeaders({ rawHeaders: ['X-Echo', `you sent ${form}`] })).toBe(true)
      expect(search.isInHeaders({ rawHeaders: ['X-Echo', 'you sent nothing'] })).toBe(false)
    },
  )
})

describe('the values of credentials', () => {
  const rig = () => {
    const asked: string[] = []
    const fetch = async ({ runId, credential }: { runId: string; credential: string }) => {
      asked.push(`${runId} ${credential}`)
      if (credential === 'absent') throw new Error('there is none')
      return `value ${asked.length}`
    }
    return { asked, values: new CredentialValues({ fetch }) }
  }
  const key = { runId: 'one', generation: 1, credential: 'git' }

  it('are fetched once for each sandbox, and again after five minutes', async () => {
    vi.useFakeTimers()
    const { values, asked } = rig()

    const first = await Promise.all([values.get(key), values.get(key)])
    await values.get({ ...key, runId: 'two' })
    vi.advanceTimersByTime(300_000)
    const second = await values.get(key)

    vi.useRealTimers()
    expect(first).toEqual(['value 1', 'value 1'])
    expect(second).toBe('value 3')
    expect(asked).toEqual(['one git', 'two git', 'one git'])
  })

  it('are forgotten with their sandbox', async () => {
    const { values, asked } = rig()
    await values.get(key)
    await values.get({ ...key, runId: 'two' })

    values.retain([{ runId: 'two', generation: 1 }])
    await values.get(key)
    await values.get({ ...key, runId: 'two' })

    expect(asked).toEqual(['one git', 'two git', 'one git'])
  })

  it('are asked for again five seconds after a failure', async () => {
    vi.useFakeTimers()
    const { values, asked } = rig()
    const absent = { ...key, credential: 'absent' }

    await expect(values.get(absent)).rejects.toThrow('there is none')
    await expect(values.get(absent)).rejects.toThrow('there is none')
    const before = [...asked]
    vi.advanceTimersByTime(5000)
    await expect(values.get(absent)).rejects.toThrow('there is none')

    vi.useRealTimers()
    expect(before).toHaveLength(1)
    expect(asked).toHaveLength(2)
  })
})
