import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { matchesPath, parsePath } from '../../runtime/egress/path.ts'

const isAllowed = (pattern: string, text: string) => {
  const parsed = parsePath(text)
  return parsed.ok && matchesPath(pattern, parsed.path)
}

describe('a path', () => {
  it.each([
    ['/**', '/'],
    ['/**', '/a/b'],
    ['/simple/**', '/simple/'],
    ['/simple/**', '/simple/requests/'],
    ['/pypi/*/json', '/pypi/some-name/json'],
    ['/debian*/**', '/debian-security/dists/x'],
    ['/a/*-v*.tgz', '/a/name-v1.2.tgz'],
    ['/**', '/@scope%2fname'],
    ['/**', '/github.com/!azure/sdk/@v/v1.0.0+incompatible.mod'],
    ['/**', '/pool/main/g/g%2b%2b/file_1%3a2.deb'],
    ['/**', '/caf%C3%A9'],
    ['/a', '/a?x=%2e%2e/&y[]=|'],
  ])('matches %s: %s', (pattern, text) => {
    expect(isAllowed(pattern, text)).toBe(true)
  })

  it.each([
    ['/simple/**', '/simple'],
    ['/simple/**', '/simplex/a'],
    ['/pypi/*/json', '/pypi//json'],
    ['/pypi/*/json', '/pypi/a/b/json'],
    ['/pypi/*/json', '/pypi/a/json/'],
    ['/pypi/*', '/pypi/'],
    ['/a/*-v*.tgz', '/a/name-v.tg'],
    ['/a*a', '/a'],
    ['/x', '/X'],
    // Another reading has one more segment.
    ['/*', '/@scope%2fname'],
    ['/*/name', '/@scope%2fname'],
    ['/@types/**', '/%40types/a'],
    ['/a*20', '/ab%20'],
  ])('does not match %s: %s', (pattern, text) => {
    expect(parsePath(text).ok || text).toBeTruthy()
    expect(isAllowed(pattern, text)).toBe(false)
  })

  it.each([
    '/public/../admin',
    '/public/./admin',
    '/public/..',
    '/public//admin',
    '//admin',
    '/public/%2e%2e/admin',
    '/public/%2E./admin',
    '/public/.%2e/admin',
    '/public/%252e%252e/admin',
    '/public/..%2fadmin',
    '/public/%2fadmin',
    '/public/..%5cadmin',
    '/public/..\\admin',
    '/public/..;/admin',
    '/public;x/admin',
    '/public/%3b/admin',
    '/public%3f/admin',
    '/public%23/admin',
    '/public#/admin',
    '/public/%61dmin',
    '/public/%00',
    '/public/%0d%0aHost:x',
    '/public/..%00/admin',
    '/public/..%20/admin',
    '/public/.../admin',
    '/public/..%09/admin',
    '/public/%c0%ae%c0%ae/admin',
    '/public/..%c0%afadmin',
    '/public/%e0%80%af/admin',
    '/public/..%ef%bc%8fadmin',
    '/public/%ef%bc%8e%ef%bc%8e/admin',
    '/public/%e2%80%a5/admin',
    '/public/..%e2%88%95admin',
    '/public/.%e2%80%8b./admin',
    '/public/..%u2216admin',
    '/public/%',
    '/public/%2',
    '/public/%zz',
    '/public/a b',
    '/public/a|b',
    '/public/a"b',
    '/public/é',
    '/a?b#c',
    '/a?b c',
    '*',
    '',
    'admin',
    'http://x/',
  ])('is refused if two programs may read it differently: %s', (text) => {
    expect(parsePath(text)).toMatchObject({ ok: false })
  })
})

/** Pieces that attacks are made of. */
const piece = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('/', '.', '..', '%2e', '%2f', '%5c', '\\', ';', '%25', '%', '?', '#'),
  },
  fc.constantFrom('public', 'admin', 'a', '%c0%ae', '%ef%bc%8f', '%20', '+', '@', ':', '%00', '\t', '//'),
  fc.string({ maxLength: 3 }),
)
const spelled = fc.array(piece, { maxLength: 10 }).map((pieces) => `/public/${pieces.join('')}`)

describe('every accepted path', () => {
  it('is one of a few: most of the generated ones leave the folder', () => {
    const leaves = fc
      .sample(spelled, 1000)
      .filter((text) => !new URL(`http://a.test${text}`).pathname.startsWith('/public/'))

    expect(leaves.length).toBeGreaterThan(0)
    expect(leaves.filter((text) => parsePath(text).ok)).toEqual([])
  })

  const check = (property: (text: string, pathname: string) => void) =>
    fc.assert(
      fc.property(spelled, (text) => {
        if (parsePath(text).ok) property(text, text.split('?')[0] as string)
      }),
      { numRuns: 20_000 },
    )

  it('is the path that the URL parser reads, and of the same host', () => {
    check((text, pathname) => {
      for (const url of [new URL(`http://a.test${text}`), new URL(text, 'http://a.test/')]) {
        expect(url.pathname).toBe(pathname)
        expect(url.host).toBe('a.test')
        expect(url.hash).toBe('')
      }
    })
  })

  it('stays below its folder after any number of decodings and a normalisation', () => {
    check((_text, pathname) => {
      let decoded = pathname
      for (let count = 0; count < 4; count += 1) {
        const next = naivelyDecoded(decoded)
        const normal = new URL(
          next
            .normalize('NFKC')
            .replaceAll('\\', '/')
            .replace(/[?#].*/s, ''),
          'http://a.test',
        )
        expect(`${normal.pathname}/`.startsWith('/public/')).toBe(true)
        decoded = next
      }
    })
  })
})

/** As many programs do: each pair of digits becomes a byte, without a check. */
const naivelyDecoded = (text: string): string =>
  Buffer.from(
    text.replaceAll(/%([0-9a-fA-F]{2})/g, (_all, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    ),
    'latin1',
  ).toString('utf8')
