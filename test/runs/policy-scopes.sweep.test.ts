import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type PolicyScope, SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createSandboxPolicy } from '../../runtime/api/runs/admit/sandbox-policy.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow } from '../../runtime/store/store.ts'

const REPOSITORY = 'https://git.example.com/Team/App'
const CEILING = { network_enabled: true, max_output_bytes: 4_194_304 }

const as = (owner: string, role: Caller['role']): Caller => ({ owner, role })
const root = as('root', 'operator')

async function policies() {
  const folder = await mkdtemp(join(tmpdir(), 'aw-policies-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    await rm(folder, { recursive: true })
  })
  const policy = createSandboxPolicy(
    {
      store,
      ceiling: SandboxSettings.parse(CEILING),
      clock: () => new Date(),
      governance: { version: () => 'v' },
    },
    createAuditTrail(await loadDeploymentKeys(join(folder, 'keys'))),
  )
  const set = (patch: SandboxSettingsPatch, scope: PolicyScope = {}) => policy.merge(root, patch, scope)
  const networkOf = async (owner: string, workspace: RunRow['workspace'] = { kind: 'empty' }) =>
    (await policy.of({ owner, workspace })).network_enabled
  return { policy, store, set, networkOf }
}

const clone = (url: string): RunRow['workspace'] => ({ kind: 'git', url })
const filesOf = (repository: string): RunRow['workspace'] => ({ kind: 'run', runId: 'run_1', repository })

describe('the policy of a repository', () => {
  it('holds for runs on every spelling of its URL and for runs with their files', async () => {
    const { set, networkOf } = await policies()
    await set({ network_enabled: false }, { repository: REPOSITORY })

    const spellings = [`${REPOSITORY}.git`, `${REPOSITORY}.GIT.git`, 'https://GIT.example.com:443/team/APP/']
    for (const url of [REPOSITORY, ...spellings]) expect(await networkOf('ada', clone(url)), url).toBe(false)
    expect(await networkOf('ada', filesOf(REPOSITORY))).toBe(false)
  })

  it('does not hold for other runs', async () => {
    const { set, networkOf } = await policies()
    await set({ network_enabled: false }, { repository: REPOSITORY })

    const names = ['git.example.com/team/app2', 'git.example.com/old/app', 'www.git.example.com/team/app']
    for (const url of [...names, 'git.example.com:8443/team/app'].map((name) => `https://${name}`))
      expect(await networkOf('ada', clone(url)), url).toBe(true)
    expect(await networkOf('ada')).toBe(true)
    expect(await networkOf('ada', { kind: 'run', runId: 'run_1' })).toBe(true)
  })

  it('is refused for a URL that cannot be cloned, and the error does not repeat a password', async () => {
    const { policy } = await policies()

    const error = await policy
      .read(root, { repository: 'https://a:secret@git.example.com/x/y' })
      .catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'invalid_request' })
    expect(String(error)).not.toContain('secret')
  })

  it('is in the audit with its scope', async () => {
    const { set, store } = await policies()
    await set({ network_enabled: false }, { repository: REPOSITORY })

    const { items } = await store.readAudit({ limit: 10 })
    expect(items.map(({ record }) => JSON.parse(record))).toMatchObject([
      {
        actor: 'person:root',
        tool: 'policy.change',
        reasons: [`changes network_enabled for runs on ${REPOSITORY}`],
      },
    ])
  })
})

it('the policy of an owner holds for the runs of this owner', async () => {
  const { set, networkOf } = await policies()
  await set({ network_enabled: false }, { owner: 'ada' })

  expect([await networkOf('ada'), await networkOf('bob')]).toEqual([false, true])
})

describe('several policies', () => {
  it('give the strictest value of all, in any order of setting them', async () => {
    const { policy, set } = await policies()
    await set({ max_output_bytes: 3_145_728 }, { owner: 'ada' })
    await set({ max_output_bytes: 2_097_152 })
    await set({ redact_pii: true, require_approval_for_all_shell: true }, { repository: REPOSITORY })

    expect(await policy.of({ owner: 'ada', workspace: clone(REPOSITORY) })).toMatchObject({
      max_output_bytes: 2_097_152,
      require_approval_for_all_shell: true,
    })
    expect((await policy.read(root, { owner: 'ada' })).max_output_bytes).toBe(2_097_152)
  })

  it('cannot widen each other', async () => {
    const { set } = await policies()
    await set({ network_enabled: false })

    await expect(set({ network_enabled: true }, { repository: REPOSITORY })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('network_enabled'),
    })
  })

  it('can be changed after the policy of all runs became stricter than one of their keys', async () => {
    const { policy, set } = await policies()
    await set({ max_output_bytes: 3_145_728 }, { owner: 'ada' })
    await set({ max_output_bytes: 2_097_152 })

    await set({ redact_pii: true }, { owner: 'ada' })

    expect(await policy.read(root, { owner: 'ada' })).toMatchObject({
      redact_pii: true,
      max_output_bytes: 2_097_152,
    })
  })
})

it('changes of two operators at once are both kept', async () => {
  const { policy, set } = await policies()
  const patches = [{ network_enabled: false }, { redact_pii: true }, { max_output_bytes: 2_097_152 }]

  await Promise.all(patches.map((patch) => set(patch, { repository: REPOSITORY })))

  expect(await policy.read(root, { repository: REPOSITORY })).toMatchObject(Object.assign({}, ...patches))
})

describe('the rights to policies', () => {
  it('let only operators change them', async () => {
    const { policy } = await policies()

    for (const role of ['user', 'approver', 'auditor'] as const)
      await expect(policy.replace(as('ada', role), {}, { owner: 'ada' })).rejects.toMatchObject({
        code: 'forbidden',
      })
    expect(await policy.replace(root, { redact_pii: true }, { owner: 'ada' })).toMatchObject({
      redact_pii: true,
    })
  })

  it('let operators, auditors and the owner read the policy of an owner', async () => {
    const { policy } = await policies()

    await expect(policy.read(as('bob', 'user'), { owner: 'ada' })).rejects.toMatchObject({
      code: 'forbidden',
    })
    for (const caller of [as('ada', 'user'), as('eve', 'auditor'), root])
      expect((await policy.read(caller, { owner: 'ada' })).network_enabled).toBe(true)
  })

  it('let every caller read the policy of a repository', async () => {
    const { policy } = await policies()

    expect((await policy.read(as('bob', 'user'), { repository: REPOSITORY })).network_enabled).toBe(true)
  })
})
