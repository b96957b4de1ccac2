import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SandboxSettings, SandboxSettingsPatch } from '../../contracts/policy.ts'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { pushRuleOf, tighten, widenings } from '../../policies/agent/tighten.ts'

const ceilingOf = (settings: Partial<SandboxSettings>) => SandboxSettings.parse(settings)

const root = fc.constantFrom('/', '/srv', '/srv/a', '/srv/a/b', '/srv/a-b', '/opt')
const limit = fc.integer({ min: 1, max: 9 })
const patch: fc.Arbitrary<SandboxSettingsPatch> = fc
  .record(
    {
      shell_enabled: fc.boolean(),
      allowed_repository_roots: fc.array(root, { maxLength: 3 }),
      destructive_command_patterns: fc.array(fc.constantFrom('make a', 'make b', 'make c'), { maxLength: 3 }),
      require_approval_for_all_shell: fc.boolean(),
      redact_pii: fc.boolean(),
      max_output_bytes: fc.integer({ min: 1_048_576, max: 104_857_600 }),
      max_workspace_bytes: fc.integer({ min: 1_048_576, max: 1_099_511_627_776 }),
      max_workspace_files: fc.integer({ min: 1000, max: 100_000_000 }),
      network_enabled: fc.boolean(),
      require_outcome: fc.boolean(),
      approvals: fc.record({ not_by_owner: fc.boolean() }),
      results: fc.record({ push: fc.constantFrom('ask', 'allow', 'deny') }),
      budgets: fc.record({ steps: limit, tokens: limit }, { requiredKeys: [] }),
    },
    { requiredKeys: [] },
  )
  .map((value) => SandboxSettingsPatch.parse(value))
const ceiling = fc
  .tuple(patch, fc.boolean())
  .map(([value, direct]) => SandboxSettings.parse({ ...value, direct }))

const isUnder = (inner: string, outer: string) =>
  outer === '/' || inner === outer || inner.startsWith(`${outer}/`)

/** Whether each budget is at most the budget of the ceiling. */
const isWithin = ({ budgets }: SandboxSettings, top: SandboxSettings): boolean =>
  (['steps', 'tokens'] as const).every(
    (kind) =>
      (budgets?.[kind] ?? Number.POSITIVE_INFINITY) <= (top.budgets?.[kind] ?? Number.POSITIVE_INFINITY),
  )

/** Whether the settings have the requested values. Lists are not compared here. */
function isGranted(field: keyof SandboxSettings, wish: unknown, got: SandboxSettings): boolean {
  if (field === 'destructive_command_patterns' || field === 'allowed_repository_roots') return true
  if (field !== 'budgets') return isDeepStrictEqual(got[field], wish)
  const limits: object = got.budgets ?? {}
  return Object.entries(wish as object).every(
    ([kind, limit]) => new Map(Object.entries(limits)).get(kind) === limit,
  )
}

const STRICT = ['allow', 'ask', 'deny']

describe('tighten', () => {
  it('never gives more than the ceiling', () => {
    fc.assert(
      fc.property(ceiling, fc.array(patch, { maxLength: 3 }), (top, patches) => {
        const got = tighten(top, ...patches)

        expect(got.shell_enabled && !top.shell_enabled).toBe(false)
        expect(got.network_enabled && !top.network_enabled).toBe(false)
        expect(got.direct).toBe(top.direct)
        expect(got.max_output_bytes).toBeLessThanOrEqual(top.max_output_bytes)
        expect(got.max_workspace_bytes).toBeLessThanOrEqual(top.max_workspace_bytes)
        expect(got.max_workspace_files).toBeLessThanOrEqual(top.max_workspace_files)
        expect(got.require_approval_for_all_shell || !top.require_approval_for_all_shell).toBe(true)
        expect(got.redact_pii || !top.redact_pii).toBe(true)
        expect(isWithin(got, top)).toBe(true)
        expect(got.require_outcome === true || top.require_outcome !== true).toBe(true)
        expect(got.approvals?.not_by_owner === true || top.approvals?.not_by_owner !== true).toBe(true)
        expect(STRICT.indexOf(pushRuleOf(got))).toBeGreaterThanOrEqual(STRICT.indexOf(pushRuleOf(top)))
        expect(got.destructive_command_patterns).toEqual(
          expect.arrayContaining(top.destructive_command_patterns),
        )
        for (const inner of got.allowed_repository_roots) {
          expect(top.allowed_repository_roots.some((outer) => isUnder(inner, outer))).toBe(true)
        }
      }),
    )
  })

  it('does not depend on the order of the patches, but for the order of lists', () => {
    const sorted = (s: SandboxSettings) => ({
      ...s,
      allowed_repository_roots: s.allowed_repository_roots.toSorted(),
      destructive_command_patterns: s.destructive_command_patterns.toSorted(),
    })
    fc.assert(
      fc.property(ceiling, patch, patch, (top, a, b) => {
        expect(sorted(tighten(top, a, b))).toEqual(sorted(tighten(top, b, a)))
      }),
    )
  })

  it('applies a stricter patch', () => {
    const top = ceilingOf({
      network_enabled: true,
      redact_pii: false,
      allowed_repository_roots: ['/srv', '/opt'],
    })

    expect(
      tighten(top, {
        shell_enabled: false,
        network_enabled: false,
        redact_pii: true,
        require_approval_for_all_shell: true,
        max_output_bytes: 1_048_576,
        max_workspace_files: 5000,
        allowed_repository_roots: ['/srv/a', '/etc'],
        destructive_command_patterns: ['make deploy'],
      }),
    ).toEqual({
      shell_enabled: false,
      network_enabled: false,
      redact_pii: true,
      require_approval_for_all_shell: true,
      max_output_bytes: 1_048_576,
      max_workspace_bytes: 10_737_418_240,
      max_workspace_files: 5000,
      allowed_repository_roots: ['/srv/a'],
      destructive_command_patterns: ['make deploy'],
      direct: false,
    })
  })

  it('keeps settings that a patch omits', () => {
    const top = ceilingOf({ network_enabled: true, allowed_repository_roots: ['/srv'], direct: true })

    expect(tighten(top, {})).toEqual(top)
  })

  it('takes the setup commands of the last patch that has some, unless an earlier one turns them off', () => {
    const folder = { setup_commands: ['npm ci'] }
    const commandsOf = (top: Partial<SandboxSettings>, ...patches: SandboxSettingsPatch[]) =>
      tighten(ceilingOf(top), ...patches).setup_commands

    expect(commandsOf({}, folder, {})).toEqual(['npm ci'])
    expect(commandsOf(folder, { setup_commands: ['make deps'] })).toEqual(['make deps'])
    expect(commandsOf({}, folder, { setup_commands: [] })).toEqual([])
    expect(commandsOf({ setup_commands: [] }, folder)).toEqual([])
    expect(commandsOf({}, {})).toBeUndefined()
  })

  it('does not take a sibling for a folder inside', () => {
    expect(
      tighten(ceilingOf({ allowed_repository_roots: ['/srv/a'] }), {
        allowed_repository_roots: ['/srv/a-b'],
      }),
    ).toMatchObject({ allowed_repository_roots: [] })
  })
})

describe('the settings file of a hostile repository', () => {
  const strictest = ceilingOf({
    shell_enabled: false,
    network_enabled: false,
    require_approval_for_all_shell: true,
    redact_pii: true,
    require_outcome: true,
    approvals: { not_by_owner: true },
    results: { push: 'deny' },
    budgets: { steps: 1, model_requests: 1, tokens: 1, event_bytes: 1, wall_seconds: 1 },
    max_output_bytes: 1_048_576,
    allowed_repository_roots: ['/srv'],
    destructive_command_patterns: ['make deploy'],
    egress_hosts: ['a.example.com'],
    setup_commands: [],
  })
  /** The most permissive value of each key. */
  const WISHES: Readonly<Record<string, string>> = {
    shell_enabled: 'true',
    network_enabled: 'true',
    require_approval_for_all_shell: 'false',
    redact_pii: 'false',
    require_outcome: 'false',
    approvals: '{ not_by_owner: false }',
    results: '{ push: allow }',
    budgets: '{ steps: 2, model_requests: 2, tokens: 2, event_bytes: 2, wall_seconds: 2 }',
    max_output_bytes: '104857600',
    allowed_repository_roots: '[/, /srv, /etc]',
    destructive_command_patterns: '[]',
    egress_hosts: '["*.example.com", b.example.org]',
    setup_commands: '[curl evil.example.org]',
  }

  it('is tried with every key that there is', () => {
    expect(Object.keys(WISHES).sort()).toEqual(Object.keys(SandboxSettingsPatch.shape).sort())
    expect(Object.keys(SandboxSettings.shape).filter((key) => !(key in WISHES))).toEqual(['direct'])
  })

  it.each(Object.entries(WISHES))('gets nothing by %s: %s', (key, value) => {
    const parsed = parseRepositorySettings(`${key}: ${value}\n`)

    expect(parsed.ok).toBe(true)
    expect(tighten(strictest, parsed.ok ? parsed.patch : {})).toEqual(strictest)
  })

  it('cannot name direct', () => {
    expect(parseRepositorySettings('direct: true')).toMatchObject({ ok: false })
  })

  it('leaves every key that it does not name at the ceiling, not at its default', () => {
    for (const key of Object.keys(WISHES)) {
      const parsed = parseRepositorySettings(`${key}: ${WISHES[key]}\n`)
      const open = ceilingOf({ network_enabled: true, redact_pii: false, allowed_repository_roots: ['/srv'] })
      const { [key as keyof SandboxSettings]: _named, ...others } = tighten(
        open,
        parsed.ok ? parsed.patch : {},
      )

      expect(open).toMatchObject(others)
    }
  })
})

describe('widenings', () => {
  it('name each wish beyond the ceiling', () => {
    const top = ceilingOf({
      shell_enabled: false,
      require_approval_for_all_shell: true,
      require_outcome: true,
      approvals: { not_by_owner: true },
      budgets: { tokens: 10 },
      setup_commands: [],
    })

    expect(
      widenings(top, {
        shell_enabled: true,
        network_enabled: true,
        redact_pii: false,
        require_approval_for_all_shell: false,
        require_outcome: false,
        approvals: { not_by_owner: false },
        setup_commands: ['npm ci'],
        results: { push: 'allow' },
        budgets: { steps: 5, tokens: 11 },
        max_output_bytes: 104_857_600,
        max_workspace_bytes: 1_099_511_627_776,
        max_workspace_files: 100_000_000,
        allowed_repository_roots: ['/srv'],
      }).map(({ field }) => field),
    ).toEqual([
      'shell_enabled',
      'network_enabled',
      'require_approval_for_all_shell',
      'redact_pii',
      'require_outcome',
      'approvals',
      'setup_commands',
      'results',
      'budgets',
      'max_output_bytes',
      'max_workspace_bytes',
      'max_workspace_files',
      'allowed_repository_roots',
    ])
  })

  it('are empty exactly if every wish is granted', () => {
    fc.assert(
      fc.property(ceiling, patch, (top, wish) => {
        const got = tighten(top, wish)
        const granted = Object.entries(wish).every(([field, value]) =>
          isGranted(field as keyof SandboxSettings, value, got),
        )

        const refused = widenings(top, wish).filter(({ field }) => field !== 'allowed_repository_roots')

        expect(refused.length === 0).toBe(granted)
      }),
    )
  })
})
