import { expect, it } from 'vitest'
import { type PolicyScope, SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { createSandboxPolicy } from '../../runtime/api/runs/admit/sandbox-policy.ts'
import type { AuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import type { RunRow, Transaction } from '../../runtime/store/store.ts'

const REPOSITORY = 'https://git.example.com/Team/App'
const CEILING = { network_enabled: true, max_output_bytes: 4_194_304 }

const as = (owner: string, role: Caller['role']): Caller => ({ owner, role }) as Caller
const root = as('root', 'operator')

function policies(runs: Readonly<Record<string, RunRow['workspace']>> = {}) {
  const settings = new Map<string, string>()
  const records: { params?: unknown; reasons?: readonly string[] }[] = []
  const store = {
    readSetting: async (name: string) => settings.get(name),
    readRun: async (id: string) => ({ workspace: runs[id] }) as RunRow,
    transaction: async <T>(work: (tx: Transaction) => Promise<T>) =>
      work({
        writeSetting: async (name: string, value: string) => void settings.set(name, value),
      } as Transaction),
  } as unknown as RunDeps['store']
  const audit = {
    append: async (_tx: unknown, _run: string, added: typeof records) => void records.push(...added),
  }
  const policy = createSandboxPolicy(
    {
      ...{ store, ceiling: SandboxSettings.parse(CEILING), clock: () => new Date(0) },
      governance: { version: () => 'v' } as unknown as RunDeps['governance'],
    },
    audit as unknown as AuditTrail,
  )
  const set = (patch: SandboxSettingsPatch, scope: PolicyScope = {}) => policy.merge(root, patch, scope)
  const networkOf = async (owner: string, workspace?: RunRow['workspace']) =>
    (await policy.of({ owner, ...(workspace && { workspace }) })).network_enabled
  return { policy, set, networkOf, records }
}

const clone = (url: string) => ({ kind: 'git', url }) as RunRow['workspace']
const filesOf = (runId: string) => ({ kind: 'run', runId }) as RunRow['workspace']

it('of a repository holds for its runs in every spelling, for their forks, and for no other run', async () => {
  const { set, networkOf } = policies({ run_1: clone(REPOSITORY), run_2: filesOf('run_1') })
  await set({ network_enabled: false }, { repository: REPOSITORY })

  for (const url of [REPOSITORY, `${REPOSITORY}.git`, 'https://GIT.example.com:443/team/APP/'])
    expect(await networkOf('ada', clone(url)), url).toBe(false)
  expect(await networkOf('ada', filesOf('run_2'))).toBe(false)
  for (const url of ['https://git.example.com/team/app2', 'https://git.example.com:8443/team/app'])
    expect(await networkOf('ada', clone(url)), url).toBe(true)
  expect(await networkOf('ada', { kind: 'empty' } as RunRow['workspace'])).toBe(true)
})

it('of an owner holds for the runs of this owner', async () => {
  const { set, networkOf } = policies()
  await set({ network_enabled: false }, { owner: 'ada' })

  expect([await networkOf('ada'), await networkOf('bob')]).toEqual([false, true])
})

it('adds up: the strictest value of all counts, whatever is set first', async () => {
  const { policy, set } = policies()
  await set({ max_output_bytes: 3_145_728 }, { owner: 'ada' })
  await set({ max_output_bytes: 2_097_152 })
  await set({ redact_pii: true, require_approval_for_all_shell: true }, { repository: REPOSITORY })

  expect(await policy.of({ owner: 'ada', workspace: clone(REPOSITORY) })).toMatchObject({
    max_output_bytes: 2_097_152,
    require_approval_for_all_shell: true,
  })
  expect((await policy.read(root, { owner: 'ada' })).max_output_bytes).toBe(2_097_152)
})

it('cannot widen what is above it', async () => {
  const { set } = policies()
  await set({ network_enabled: false })

  await expect(set({ network_enabled: true }, { repository: REPOSITORY })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('network_enabled'),
  })
})

it('is changed by operators, and that of an owner is read by nobody else than operators, auditors and the owner', async () => {
  const { policy } = policies()

  for (const role of ['user', 'approver', 'auditor'] as const)
    await expect(policy.replace(as('ada', role), {}, { owner: 'ada' })).rejects.toMatchObject({
      code: 'forbidden',
    })
  await expect(policy.read(as('bob', 'user'), { owner: 'ada' })).rejects.toMatchObject({ code: 'forbidden' })
  for (const caller of [as('ada', 'user'), as('eve', 'auditor'), root])
    expect((await policy.read(caller, { owner: 'ada' })).network_enabled).toBe(true)
  expect((await policy.read(as('bob', 'user'), { repository: REPOSITORY })).network_enabled).toBe(true)
})

it('refuses a repository that could not be cloned, without repeating a password', async () => {
  const { policy } = policies()

  const error = await policy
    .read(root, { repository: 'https://a:secret@git.example.com/x/y' })
    .catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'invalid_request' })
  expect(String(error)).not.toContain('secret')
})

it('is in the audit with its scope', async () => {
  const { set, records } = policies()
  await set({ network_enabled: false }, { repository: REPOSITORY })

  expect(records).toMatchObject([
    {
      params: { scope: { repository: REPOSITORY }, settings: { network_enabled: false } },
      reasons: [`changes network_enabled for runs on ${REPOSITORY}`],
    },
  ])
})
