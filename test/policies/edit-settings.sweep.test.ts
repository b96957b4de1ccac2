import { expect, it } from 'vitest'
import { parseDocument } from 'yaml'
import { settingsText } from '../../cli/init/settings-text.ts'
import type { SandboxSettingsPatch } from '../../contracts/policy.ts'
import { editSettings } from '../../policies/agent/edit-settings.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { processorMs } from '../helpers/processor-time.ts'

function edited(text: string, settings: SandboxSettingsPatch, replaces = false): string {
  const result = editSettings(text, { settings, replaces })
  if (!result.ok) throw new Error(`line ${result.line}: ${result.reason}`)
  return result.text
}

it('changes one line of a file that agentweaver init wrote, and keeps its comments', () => {
  const text = settingsText({ found: [], listed: ['registry.npmjs.org'], notListed: [] })

  const after = edited(text, { require_approval_for_all_shell: true, egress_hosts: ['registry.npmjs.org'] })

  expect(after).toBe(
    text.replace('require_approval_for_all_shell: false', 'require_approval_for_all_shell: true'),
  )
})

it('adds keys at the end of a file, and to a file that has none', () => {
  expect(edited('# ours\nredact_pii: true # always\n', { shell_enabled: false })).toBe(
    '# ours\nredact_pii: true # always\nshell_enabled: false\n',
  )
  expect(edited('# ours\n', { budgets: { steps: 5 } })).toBe('# ours\n\nbudgets:\n  steps: 5\n')
  expect(edited('', { egress_hosts: ['a.example'] })).toBe('egress_hosts:\n  - a.example\n')
})

it.each([
  ['---\n# ours\n', '---\n# ours\nshell_enabled: false\n'],
  ['# ours\n---\n# more\n', '# ours\n---\n# more\nshell_enabled: false\n'],
  ['--- # ours\n', '---\n# ours\nshell_enabled: false\n'],
  ['null # ours\n# more\n', '# ours\nshell_enabled: false\n\n# more\n'],
  ['# ours\n~ # more\n', '# ours\n# more\nshell_enabled: false\n'],
  ['# ours\n\n# more\n', '# ours\n\n# more\n\nshell_enabled: false\n'],
  ['\n\n# ours\n', '# ours\n\nshell_enabled: false\n'],
  ['# ours\n...\n', '# ours\nshell_enabled: false\n...\n'],
  [
    '# ours\n--- null # more\n# here\n...\n# end\n',
    '# ours\n---\n# more\nshell_enabled: false\n...\n# here\n# end\n',
  ],
  ['{} # ours\n', '{ shell_enabled: false } # ours\n'],
  ['# ours\n{\n# here\n}\n# end\n', '# ours\n{ shell_enabled: false } # here\n\n# end\n'],
  ['%YAML 1.2\n---\n# ours\n', '%YAML 1.2\n---\n# ours\nshell_enabled: false\n'],
])('keeps the comments of a file without keys: %j', (text, after) => {
  expect(edited(text, { shell_enabled: false })).toBe(after)
})

it('keeps the comments of the entries that stay', () => {
  const text = [
    'destructive_command_patterns:',
    '- make deploy # the cluster',
    '# for the database',
    '- psql',
    'budgets: {steps: 5, tokens: 7} # small',
    '',
  ].join('\n')

  expect(
    edited(text, { destructive_command_patterns: ['psql', 'npm publish'], budgets: { tokens: 9 } }),
  ).toBe(
    [
      'destructive_command_patterns:',
      '# for the database',
      '- psql',
      '- npm publish',
      'budgets: {tokens: 9} # small',
      '',
    ].join('\n'),
  )
})

it('removes the other keys if it replaces', () => {
  const text = '# ours\nshell_enabled: true\nredact_pii: true\nnetwork_enabled: false\n'

  const after = edited(text, { redact_pii: true }, true)

  expect(parseRepositorySettings(after)).toEqual({ ok: true, patch: { redact_pii: true } })
  expect(after).toContain('# ours')
})

it.each([
  ['a file with Windows line ends', 'shell_enabled: true\r\nredact_pii: true\r\n'],
  ['a byte order mark', '\ufeffshell_enabled: true\nredact_pii: true\n'],
  ['an indent of four', 'egress_hosts:\n    - a.example\nshell_enabled: true\n'],
  ['two documents marks', '---\nshell_enabled: true\n'],
])('keeps %s', (_what, text) => {
  expect(edited(text, { shell_enabled: false })).toBe(
    text.replace('shell_enabled: true', 'shell_enabled: false'),
  )
})

it('changes nothing if the file has the settings already', () => {
  const text = 'shell_enabled:   true\n\n\n\nredact_pii: true\n'

  expect(edited(text, {})).toBe(text)
})

it('refuses a text that is no settings file, with the line', () => {
  expect(editSettings('redact_pii: true\nnonsense: 1\n', { settings: {}, replaces: false })).toEqual({
    ...{ ok: false, line: 2, reason: 'nonsense: is not a known key' },
  })
})

it.each([
  ['blank lines', '\n'],
  ['comments', '#\n'],
  ['lines of a space', ' \n'],
])('parses a file of %s once', (_what, line) => {
  const text = line.repeat(16_384 / line.length)
  const edits = () => editSettings(text, { settings: { shell_enabled: false }, replaces: false })

  expect(cost(edits) / cost(() => parseDocument(text))).toBeLessThan(4)
})

const cost = (call: () => unknown): number => Math.min(...Array.from({ length: 10 }, () => processorMs(call)))
