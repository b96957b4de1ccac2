import { randomUUID } from 'node:crypto'
import { type PolicyScope, SandboxSettings, SandboxSettingsPatch } from '../../../../contracts/policy.ts'
import { parseGitUrl, repositoryKey } from '../../../../policies/agent/egress/git-url.ts'
import { patternProblems } from '../../../../policies/agent/settings.ts'
import { tighten, widenings } from '../../../../policies/agent/tighten.ts'
import { canonicalJson } from '../../../kit/canonical-json.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow, Transaction } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import type { Caller } from '../service.ts'

const SETTING = 'sandbox-policy'
const SETTING_NAMES = SandboxSettings.keyof().options

/** Returns the fields in which a patch allows more than these settings. They are rejected. */
export const notGranted = (settings: SandboxSettings, patch: SandboxSettingsPatch): string[] =>
  widenings(settings, patch).map(({ field, message }) => `${field}: ${message}`)

const patternFaults = (patch: SandboxSettingsPatch): string[] =>
  patternProblems(patch).map(({ index, message }) => `destructive_command_patterns.${index}: ${message}`)

/** Returns all problems of a patch: patterns that can never match, and values beyond the ceiling. */
export const problemsOf = (ceiling: SandboxSettings, patch: SandboxSettingsPatch): string[] => [
  ...patternFaults(patch),
  ...notGranted(ceiling, patch),
]

/** Settings of a run: the policy, tightened by those in force for its workspace and by the request that starts it. */
export function settingsOfRun(
  policy: SandboxSettings,
  inForce: SandboxSettingsPatch,
  request: SandboxSettingsPatch = {},
): SandboxSettings {
  const base = tighten(policy, inForce)
  const problems = problemsOf(base, request)
  if (problems.length > 0)
    throw new SandboxError(
      'policy_denied',
      `The request asks for more than the settings allow: ${problems.join('; ')}`,
    )
  const settled = SandboxSettings.safeParse(tighten(base, request))
  if (settled.success) return settled.data
  const [issue] = settled.error.issues
  throw new SandboxError(
    'policy_denied',
    `the settings of the deployment, the workspace and the request together: ${String(issue?.path[0])}: ${issue?.message}`,
  )
}

/** The repository from which the files of a run come, if a run cloned it. */
export function repositoryOfFiles(workspace: RunRow['workspace']): string | undefined {
  if (workspace.kind === 'git') return workspace.url
  return workspace.kind === 'run' ? workspace.repository : undefined
}

/**
 * The policies that operators have stored, under the ceiling: of the deployment, of owners and of repositories. Each can only
 * tighten the level above it. A run has the policies of the deployment, of its owner and of the repository of its files.
 */
export function createSandboxPolicy({ store, ceiling, governance, clock }: PolicyDeps, audit: AuditTrail) {
  async function change(caller: Caller, scope: PolicyScope, patch: PatchOf): Promise<SandboxSettings> {
    if (caller.role !== 'operator')
      throw new SandboxError('forbidden', 'only an operator may change the policy')
    const name = nameOf(scope)
    return store.transaction(async (tx) => {
      // The lock of the deployment's chain: of two changes at once, the second one reads the result of the first.
      await tx.auditHead('')
      const base = await above(tx, ceiling, name)
      const before = await stored(tx, name)
      const { asked, result } = patch(before)
      const problems = [...patternFaults(result), ...notGranted(base, asked)]
      if (problems.length > 0) throw new SandboxError('invalid_request', problems.join('; '))
      const settings = tighten(base, result)
      await tx.writeSetting(name, JSON.stringify(result))
      await audit.append(tx, '', [
        {
          kind: 'policy.changed',
          runId: '',
          callId: `policy_${randomUUID().replaceAll('-', '')}`,
          actor: `person:${caller.owner}`,
          tool: 'policy.change',
          params: name === SETTING ? result : { scope, settings: result },
          policyVersion: governance.version(settings),
          reasons: differing(tighten(base, before), settings).map(
            (field) => `changes ${field}${wordsOf(scope)}`,
          ),
          at: clock().toISOString(),
        },
      ])
      await caller.keep?.(tx, settings)
      return settings
    })
  }

  return {
    read: async (caller: Caller, scope: PolicyScope): Promise<SandboxSettings> => {
      requireReader(caller, scope)
      const name = nameOf(scope)
      return tighten(await above(store, ceiling, name), await stored(store, name))
    },
    /** The policy of a run, before its settings and its request. */
    of: async ({ owner, workspace }: PolicyOf): Promise<SandboxSettings> => {
      const repository = workspace && repositoryOfFiles(workspace)
      const names = [
        SETTING,
        nameOf({ owner }),
        ...(repository === undefined ? [] : [nameOf({ repository })]),
      ]
      return tighten(ceiling, ...(await Promise.all(names.map((name) => stored(store, name)))))
    },
    replace: (caller: Caller, patch: SandboxSettingsPatch, scope: PolicyScope) =>
      change(caller, scope, () => ({ asked: patch, result: patch })),
    /** Keys that the patch does not name stay, also those that a level above has tightened since. */
    merge: (caller: Caller, patch: SandboxSettingsPatch, scope: PolicyScope) =>
      change(caller, scope, (before) => ({ asked: patch, result: { ...before, ...patch } })),
  }
}

type PolicyDeps = Pick<RunDeps, 'ceiling' | 'clock'> & {
  readonly store: Pick<RunDeps['store'], 'transaction' | 'readSetting'>
  readonly governance: Pick<RunDeps['governance'], 'version'>
}

/** The parts of a run that decide which policies it has. */
type PolicyOf = Pick<RunRow, 'owner'> & Partial<Pick<RunRow, 'workspace'>>

/** The stored policy after a change, and the keys that the caller asked for. */
type PatchOf = (before: SandboxSettingsPatch) => Readonly<Record<'asked' | 'result', SandboxSettingsPatch>>

type Reading = Pick<Transaction, 'readSetting'>

const stored = async (reading: Reading, name: string): Promise<SandboxSettingsPatch> =>
  SandboxSettingsPatch.parse(JSON.parse((await reading.readSetting(name)) ?? '{}'))

/** The settings that a policy of this name tightens. */
const above = async (reading: Reading, ceiling: SandboxSettings, name: string): Promise<SandboxSettings> =>
  name === SETTING ? ceiling : tighten(ceiling, await stored(reading, SETTING))

/** Every caller may read the policies of all runs and of repositories; only operators, auditors and the owner read an owner's policy. */
function requireReader({ role, owner: caller }: Caller, { owner }: PolicyScope): void {
  if (owner === undefined || owner === caller || role === 'operator' || role === 'auditor') return
  throw new SandboxError(
    'forbidden',
    'only operators, auditors and the owner may read the policy of an owner',
  )
}

/** The name under which the policy is stored. */
function nameOf({ repository, owner }: PolicyScope): string {
  if (owner !== undefined) return `${SETTING}/owner/${owner}`
  if (repository === undefined) return SETTING
  const parsed = parseGitUrl(repository)
  if (!parsed.ok) throw new SandboxError('invalid_request', parsed.reason)
  return `${SETTING}/repository/${repositoryKey(parsed.repository)}`
}

function wordsOf({ repository, owner }: PolicyScope): string {
  if (owner !== undefined) return ` for runs of ${owner}`
  return repository === undefined ? '' : ` for runs on ${repository}`
}

const differing = (before: SandboxSettings, after: SandboxSettings): string[] =>
  SETTING_NAMES.filter((name) => canonicalJson(before[name] ?? null) !== canonicalJson(after[name] ?? null))

export type SandboxPolicy = ReturnType<typeof createSandboxPolicy>
