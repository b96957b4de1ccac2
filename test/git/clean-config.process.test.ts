import { describe, expect, it } from 'vitest'
import { cleanConfig, cleanUrl } from '../../runtime/git/clean-config.ts'
import { type ConfigEntry, parseList } from '../../runtime/git/configuration.ts'
import { aPlace } from './repository.ts'

const own = (key: string, value: string): ConfigEntry => ({ scope: 'local', file: '.git/config', key, value })
const ofUser = (key: string, value: string): ConfigEntry => ({ ...own(key, value), scope: 'global' })

it.each([
  ['https://example.com/r.git', 'https://example.com/r.git'],
  ['https://me:token@example.com:8443/r.git?key=token#token', 'https://example.com:8443/r.git'],
  ['ssh://git@example.com:22/r.git', 'ssh://example.com:22/r.git'],
  ['git@example.com:org/r.git', 'example.com:org/r.git'],
  ['ext::sh -c evil', undefined],
  ['fd::7', undefined],
  ['file:///home/me/r.git', undefined],
  ['/home/me/r.git', undefined],
  ['https://example.com/\nevil', undefined],
])('keeps only %j as %j in a remote URL', (url, expected) => {
  expect(cleanUrl(url)).toBe(expected)
})

describe('cleanConfig', () => {
  it('keeps repository facts and the user name, and nothing that runs a program', () => {
    const cleaned = cleanConfig([
      ofUser('user.name', 'Me "the\\one"'),
      ofUser('user.email', 'me@example.com'),
      ofUser('core.editor', 'evil'),
      ofUser('core.autocrlf', 'input'),
      own('core.filemode', 'false'),
      own('core.fsmonitor', 'evil'),
      own('core.hookspath', 'evil'),
      own('include.path', 'evil'),
      own('http.extraheader', 'evil'),
      own('filter.x.clean', 'evil'),
      own('alias.x', '!evil'),
      own('credential.helper', 'evil'),
      own('remote.origin.url', 'https://me:evil@example.com/r.git'),
      own('remote.origin.uploadpack', 'evil'),
      own('remote.or"igin.url', 'https://example.com/evil'),
      own('branch.main.remote', 'origin'),
      own('branch.main.merge', 'refs/heads/main'),
      own('core.worktree', 'evil'),
    ])

    expect(cleaned).toMatchObject({ ok: true, format: 'sha1' })
    const text = cleaned.ok ? cleaned.text : ''
    expect(text).not.toContain('evil')
    const place = aPlace()
    place.shell(`cat >config <<'END'\n${text}\nEND`)
    expect(place.shell('git config --file config --list').split('\n').sort().join('\n').trim()).toBe(
      [
        'branch.main.merge=refs/heads/main',
        'branch.main.remote=origin',
        'core.autocrlf=input',
        'core.bare=false',
        'core.checkstat=minimal',
        'core.filemode=false',
        'core.repositoryformatversion=0',
        'core.trustctime=false',
        'gc.auto=0',
        'maintenance.auto=false',
        'remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*',
        'remote.origin.url=https://example.com/r.git',
        'user.email=me@example.com',
        'user.name=Me "the\\one"',
      ].join('\n'),
    )
  })

  it.each(['a\n[core]\n\tfsmonitor = evil', 'a\u0000b', 'a\rb'])(
    'omits a name with control characters',
    (name) => {
      const cleaned = cleanConfig([ofUser('user.name', name)])

      expect(cleaned.ok && cleaned.text).not.toContain('[user]')
    },
  )

  it.each([
    [[own('core.repositoryformatversion', '2')], /format 2/],
    [[own('extensions.partialclone', 'origin')], /partial clone/],
    [[own('remote.origin.promisor', 'true')], /partial clone/],
    [[own('extensions.refstorage', 'reftable')], /refstorage=reftable/],
    [[own('extensions.unknown', 'x')], /unknown=x/],
  ])('rejects a repository that runs cannot use', (entries, reason) => {
    const cleaned = cleanConfig(entries)

    expect(cleaned.ok ? '' : cleaned.reason).toMatch(reason)
  })
})

it("parses git's list format with multi-line values and keys without a value", () => {
  const output =
    'global\0file:/home/me/.gitconfig\0alias.x\nline\nline\0local\0file:.git/config\0core.bare\0command\0command line:\0a.b\nc\0'

  expect(parseList(output)).toEqual([
    { scope: 'global', file: '/home/me/.gitconfig', key: 'alias.x', value: 'line\nline' },
    { scope: 'local', file: '.git/config', key: 'core.bare', value: 'true' },
  ])
})
