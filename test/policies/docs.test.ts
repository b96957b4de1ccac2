import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { decideCommand, governanceWith } from '../governance/fixture.ts'

const page = readFileSync(new URL('../../docs/governance.md', import.meta.url), 'utf8')
const example = /```yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? ''

it('shows settings that are valid', () => {
  const parsed = parseRepositorySettings(example)

  expect(parsed).toMatchObject({ ok: true })
  expect(parsed.ok && SandboxSettings.safeParse(parsed.patch).success).toBe(true)
})

it.each([
  ['make deploy', 'make -C app deploy'],
  ['kubectl ^apply !--dry-run=client', 'kubectl -n prod apply -f x.yaml'],
  ['psql -c,--command *vacuum*', 'psql app -c "VACUUM FULL"'],
  ['cat,less | mail,sendmail', 'cat x | sort | mail someone'],
  ['* > /srv/shared/*', 'echo x > /srv/shared/y'],
])('shows a pattern that acts: %s', (pattern, command) => {
  const parsed = parseRepositorySettings(example)
  const patterns = parsed.ok ? (parsed.patch.destructive_command_patterns ?? []) : []

  expect(patterns).toContain(pattern)
  expect(decideCommand(command, governanceWith({ destructive_command_patterns: patterns }))).toMatchObject({
    verdict: 'ask',
    matched: [pattern],
  })
  expect(decideCommand(command).verdict).toBe('allow')
})
