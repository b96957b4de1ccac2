import { expect, it } from 'vitest'
import { SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { ProposePolicy, type ProposePolicyInput } from '../../contracts/policy-proposal.ts'
import { createPolicyProposals } from '../../runtime/api/runs/admit/propose-policy.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import type { RunRow } from '../../runtime/store/store.ts'

const REPOSITORY = 'https://git.example.com/Team/App'
const FILE = '# ours\nshell_enabled: true\n'
const ada: Caller = { owner: 'ada', role: 'user' }

function proposals(
  runs: readonly RunRow['workspace'][] = [],
  ceiling: SandboxSettingsPatch = {},
  ofRun: SandboxSettingsPatch = ceiling,
) {
  const asked: unknown[] = []
  const store = {
    listRuns: async (filter: unknown) => {
      asked.push(filter)
      return { items: runs.map((workspace, index) => ({ id: `run_${index}`, workspace })) }
    },
  }
  const askedOf: unknown[] = []
  const policy = {
    read: async () => SandboxSettings.parse(ceiling),
    of: async (run: unknown) => {
      askedOf.push(run)
      return SandboxSettings.parse(ofRun)
    },
  }
  const { proposePolicy } = createPolicyProposals({ store }, policy)
  const propose = (wanted: ProposePolicyInput, repository?: string) =>
    proposePolicy(ada, ProposePolicy.parse(wanted), repository === undefined ? {} : { repository })
  return { propose, asked, askedOf }
}

it('changes the file that came with the last run on the repository, if the request has none', async () => {
  const { propose, asked } = proposals([
    { kind: 'empty' },
    { kind: 'git', url: 'https://git.example.com/team/other', settings: 'redact_pii: true\n' },
    { kind: 'git', url: `${REPOSITORY.toLowerCase()}.GIT.git`, settings: FILE },
    { kind: 'git', url: REPOSITORY, settings: 'redact_pii: false\n' },
  ])

  const proposal = await propose({ settings: { shell_enabled: false } }, REPOSITORY)

  expect(proposal).toMatchObject({
    base: { kind: 'run', runId: 'run_2' },
    text: '# ours\nshell_enabled: false\n',
    settings: { shell_enabled: false },
  })
  expect(proposal.diff).toBe(
    [
      'diff --git a/.agentweaver/settings.yml b/.agentweaver/settings.yml',
      '--- a/.agentweaver/settings.yml',
      '+++ b/.agentweaver/settings.yml',
      '@@ -1,2 +1,2 @@',
      ' # ours',
      '-shell_enabled: true',
      '+shell_enabled: false',
      '',
    ].join('\n'),
  )
  expect(asked, 'only runs of the caller').toEqual([{ owner: 'ada', limit: 200 }])
})

it('proposes a new file if the repository has no settings file', async () => {
  const { propose, asked } = proposals([{ kind: 'git', url: REPOSITORY, settings: FILE }])
  const settings = { shell_enabled: false }

  const [absent, unnamed] = [await propose({ settings, file: null }, REPOSITORY), await propose({ settings })]

  expect(absent).toMatchObject({ base: { kind: 'request' }, text: 'shell_enabled: false\n' })
  expect(unnamed).toMatchObject({ base: { kind: 'none' }, text: 'shell_enabled: false\n' })
  expect(absent.diff).toContain('new file mode 100644\n--- /dev/null')
  expect(asked).toEqual([])
})

it('returns the settings of a run that the caller starts, with the policies of the owner and of the repository', async () => {
  const { propose, askedOf } = proposals(
    [],
    {},
    { redact_pii: true, shell_enabled: false, budgets: { steps: 5 } },
  )
  const wanted = { settings: { require_approval_for_all_shell: true }, file: null }

  const { text, settings } = await propose(wanted, REPOSITORY)
  await propose(wanted)

  expect(text).toBe('require_approval_for_all_shell: true\n')
  expect(settings).toMatchObject({
    require_approval_for_all_shell: true,
    shell_enabled: false,
    budgets: { steps: 5 },
  })
  expect(askedOf).toEqual([{ owner: 'ada', workspace: { kind: 'git', url: REPOSITORY } }, { owner: 'ada' }])
})

it('refuses settings beyond the policy, patterns that cannot act, and a file with a mistake', async () => {
  const { propose } = proposals([], { require_approval_for_all_shell: true })
  const refused = (message: string) => ({
    code: 'invalid_request',
    message: expect.stringContaining(message),
  })

  await expect(propose({ settings: { require_approval_for_all_shell: false } })).rejects.toMatchObject(
    refused('every command needs an approval'),
  )
  await expect(propose({ settings: { destructive_command_patterns: ['a; b'] } })).rejects.toMatchObject(
    refused('destructive_command_patterns.0'),
  )
  await expect(propose({ settings: {}, file: 'nonsense: 1\n' })).rejects.toMatchObject(
    refused('the present settings file, line 1: nonsense'),
  )
})

it('refuses a settings file that is too long, in the request and in the repository', async () => {
  const long = '#'.repeat(16_385)
  const { propose } = proposals([{ kind: 'git', url: REPOSITORY, settings: long }])
  const settings = { shell_enabled: false }
  const refused = (file: string) => ({
    code: 'invalid_request',
    message: `${file} has more than 16384 characters, the most that a proposal can change`,
  })

  expect(ProposePolicy.safeParse({ settings, file: long }).error?.issues).toMatchObject([
    { path: ['file'], message: 'must be a settings file of at most 16384 characters' },
  ])
  await expect(propose({ settings }, REPOSITORY)).rejects.toMatchObject(
    refused('the present settings file of the run run_0'),
  )
  await expect(propose({ settings, file: long.slice(1) })).rejects.toMatchObject(
    refused('the changed settings file'),
  )
})
