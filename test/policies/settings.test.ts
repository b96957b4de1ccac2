import { describe, expect, it } from 'vitest'
import { parseRepositorySettings, patternProblems } from '../../policies/agent/settings.ts'
import { processorMs } from '../helpers/processor-time.ts'

describe("a repository's settings", () => {
  it('are read from YAML', () => {
    const text =
      'shell_enabled: false\nmax_output_bytes: 2097152\ndestructive_command_patterns:\n  - make deploy\n'

    expect(parseRepositorySettings(text)).toEqual({
      ok: true,
      patch: {
        shell_enabled: false,
        max_output_bytes: 2_097_152,
        destructive_command_patterns: ['make deploy'],
      },
    })
  })

  it.each(['', '# only a comment\n', '{}'])('may say nothing: %j', (text) => {
    expect(parseRepositorySettings(text)).toEqual({ ok: true, patch: {} })
  })

  it.each(['\u0000', '\u0001', '\b', '\u000b', '\f', '\u001b', '\u007f', '\u0085', '\u009b'])(
    'have no control character: %j',
    (character) => {
      const reason = `contains the control character U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
      const refused = { ok: false, line: 2, reason }

      expect(parseRepositorySettings(`redact_pii: true\r\n# a${character}`)).toEqual(refused)
      expect(parseRepositorySettings(`# a\n${character}redact_pii: true`)).toEqual(refused)
      expect(parseRepositorySettings(`setup_commands:\n  - "a${character}"\n`)).toEqual(refused)
    },
  )

  it('may have tabs and Windows line ends', () => {
    expect(parseRepositorySettings('redact_pii: true\t# a\r\n\t\r\n')).toEqual({
      ok: true,
      patch: { redact_pii: true },
    })
  })

  it.each([
    [
      'an unknown key',
      {
        text: 'shell_enabled: true\n\nshel_enabled: false',
        line: 3,
        reason: /shel_enabled: is not a known key/,
      },
    ],
    [
      'a wrong type',
      { text: 'redact_pii: true\nshell_enabled: nope', line: 2, reason: /shell_enabled: .*boolean/ },
    ],
    ['a YAML 1.1 boolean', { text: 'shell_enabled: no', line: 1, reason: /boolean/ }],
    ['a number out of bounds', { text: '\nmax_output_bytes: 1', line: 2, reason: /max_output_bytes/ }],
    ['direct', { text: 'redact_pii: true\ndirect: true', line: 2, reason: /only the operator/ }],
    ['bad YAML', { text: 'redact_pii: true\nx: [', line: 2, reason: /./ }],
    [
      'a duplicate key',
      { text: 'shell_enabled: false\nshell_enabled: true', line: 2, reason: /shell_enabled: is there twice/ },
    ],
    [
      'a duplicate key that is quoted',
      { text: 'shell_enabled: false\n"shell_enabled": true', line: 2, reason: /is there twice/ },
    ],
    [
      'a key that is a list',
      { text: 'redact_pii: true\n? [shell_enabled]\n: true', line: 2, reason: /keys must be strings/ },
    ],
    ['a merge key', { text: '<<: {shell_enabled: true}', line: 1, reason: /<<: is not a known key/ }],
    ['a prototype', { text: '__proto__: {shell_enabled: true}', line: 1, reason: /is not a known key/ }],
    ['an alias', { text: 'allowed_repository_roots: *a', line: 1, reason: /aliases/ }],
    ['deep nesting', { text: `a: ${'['.repeat(30_000)}`, line: 1, reason: /nested too deeply/ }],
    ['an anchor', { text: 'allowed_repository_roots: &a\n  - /srv', line: 2, reason: /anchors/ }],
    ['a tag', { text: 'shell_enabled: !!bool "true"', line: 1, reason: /tags?/i }],
    ['two documents', { text: 'redact_pii: true\n---\nshell_enabled: true', line: 2, reason: /documents/ }],
    ['a list', { text: '- shell_enabled', line: 1, reason: /object/ }],
    [
      'a relative root',
      { text: 'allowed_repository_roots:\n  - /srv\n  - srv/../etc', line: 3, reason: /absolute/ },
    ],
    [
      'a root with a line feed in front of ".."',
      { text: 'allowed_repository_roots:\n  - "/srv/x\\n/../../etc"', line: 2, reason: /control characters/ },
    ],
    [
      'a pattern that cannot act',
      {
        text: 'destructive_command_patterns:\n  - make deploy\n  - "rm $x"',
        line: 3,
        reason: /must not contain/,
      },
    ],
    [
      'more alternatives than commands can be compared with',
      {
        text: `destructive_command_patterns:\n${`  - x ${'*b,'.repeat(100)}*b\n`.repeat(12)}`,
        line: 12,
        reason: /more than 1024 alternatives in all/,
      },
    ],
    ['a huge text', { text: `# ${'x'.repeat(70_000)}`, line: 1, reason: /longer/ }],
  ])('are refused for %s, with the line', (_what, { text, line, reason }) => {
    const parsed = parseRepositorySettings(text)

    expect(parsed).toMatchObject({ ok: false, line })
    expect(parsed.ok ? '' : parsed.reason).toMatch(reason)
  })
})

describe('a hostile settings file', () => {
  const keys = Array.from({ length: 15_000 }, (_, index) => index.toString(36)).join(',')

  it.each([
    ['thousands of keys', `{${keys}}`],
    ['a name as long as the file', `${'k'.repeat(1000)}: true`],
  ])('of %s is refused in a moment, with a short reason', (_what, text) => {
    let parsed = parseRepositorySettings('')
    const ms = processorMs(() => {
      parsed = parseRepositorySettings(text)
    })

    expect(parsed).toMatchObject({ ok: false, line: 1 })
    expect(parsed.ok ? 0 : parsed.reason.length).toBeLessThan(300)
    expect(ms).toBeLessThan(1500)
  })
})

describe('the problems of patterns', () => {
  it('are reported one by one', () => {
    const patch = { destructive_command_patterns: ['make deploy', '| sh', '*', 'a , b', 'curl | @nothing'] }

    expect(patternProblems(patch).map(({ index }) => index)).toEqual([1, 2, 3, 4])
  })
})
