import { randomUUID } from 'node:crypto'
import type { WorkspaceSource } from '../../../../contracts/api.ts'
import { type PolicyScope, SandboxSettings, SandboxSettingsPatch } from '../../../../contracts/policy.ts'
import { parseGitUrl } from '../../../../policies/agent/egress/git-url.ts'
import { patternProblems } from '../../../../policies/agent/settings.ts'
import { tighten, widenings } from '../../../../policies/agent/tighten.ts'
import { canonicalJson } from '../../../kit/canonical-json.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import type { Caller } from '../service.ts'

const SETTING = 'sandbox-policy'
const SETTING_NAMES = SandboxSettings.keyof().options

/** The fields in which a patch is wider than these settings. They are not granted. */
export const notGranted = (settings: SandboxSettings, patch: SandboxSettingsPatch): string[] =>
  widenings(settings, patch).map(({ field, message }) => `${field}: ${message}`)

/** Everything that is wrong with a patch: patterns that cannot act, wishes beyond the ceiling. */
function problemsOf(ceiling: SandboxSettings, patch: SandboxSettingsPatch): string[] {
  return [
    ...patternProblems(patch).map(
      ({ index, message }) => `destructive_command_patterns.${index}: ${message}`,
    ),
    ...notGranted(ceiling, patch),
  ]
}

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

/** What the policy of a run depends on. */
type PolicyOf = Pick<RunRow, 'owner'> & { readonly workspace?: WorkspaceSource | RunRow['workspace'] }

/** Forks of forks. */
const MAX_ORIGINS = 100

/**
 * The policies that operators have stored, under the ceiling: of the deployment, of owners and of repositories. Each can only
 * tighten what is above it. A run has the policies of the deployment, of its owner and of the repository that it clones.
 */
export function createSandboxPolicy(
  { store, ceiling, governance, clock }: Pick<RunDeps, 'store' | 'ceiling' | 'governance' | 'clock'>,
  audit: AuditTrail,
) {
  const stored = async (name: string): Promise<SandboxSettingsPatch> =>
    SandboxSettingsPatch.parse(JSON.parse((await store.readSetting(name)) ?? '{}'))
  /** What a policy of this scope tightens. */
  const above = async (name: string): Promise<SandboxSettings> =>
    name === SETTING ? ceiling : tighten(ceiling, await stored(SETTING))

  async function write(
    caller: Caller,
    patch: SandboxSettingsPatch,
    scope: PolicyScope,
  ): Promise<SandboxSettings> {
    if (caller.role !== 'operator')
      throw new SandboxError('forbidden', 'only an operator may change the policy')
    const name = nameOf(scope)
    const base = await above(name)
    const problems = problemsOf(base, patch)
    if (problems.length > 0) throw new SandboxError('invalid_request', problems.join('; '))
    const settings = tighten(base, patch)
    const before = tighten(base, await stored(name))
    await store.transaction(async (tx) => {
      await tx.writeSetting(name, JSON.stringify(patch))
      await audit.append(tx, '', [
        {
          kind: 'policy.changed',
          runId: '',
          callId: `policy_${randomUUID().replaceAll('-', '')}`,
          actor: `person:${caller.owner}`,
          tool: 'policy.change',
          params: name === SETTING ? patch : { scope, settings: patch },
          policyVersion: governance.version(settings),
          reasons: differing(before, settings).map((field) => `changes ${field}${wordsOf(scope)}`),
          at: clock().toISOString(),
        },
      ])
      await caller.keep?.(tx, settings)
    })
    return settings
  }

  return {
    read: async (caller: Caller, scope: PolicyScope): Promise<SandboxSettings> => {
      requireReader(caller, scope)
      const name = nameOf(scope)
      return tighten(await above(name), await stored(name))
    },
    /** The policy of a run, before its settings and its request. */
    of: async ({ owner, workspace }: PolicyOf): Promise<SandboxSettings> => {
      const repository = await repositoryOf(store, workspace)
      const names = [
        SETTING,
        nameOf({ owner }),
        ...(repository === undefined ? [] : [nameOf({ repository })]),
      ]
      return tighten(ceiling, ...(await Promise.all(names.map(stored))))
    },
    replace: write,
    merge: async (
      caller: Caller,
      patch: SandboxSettingsPatch,
      scope: PolicyScope,
    ): Promise<SandboxSettings> => write(caller, { ...(await stored(nameOf(scope))), ...patch }, scope),
  }
}

/** The repository of a run, or of the run that its files come from. */
async function repositoryOf(
  store: Pick<RunDeps['store'], 'readRun'>,
  workspace: PolicyOf['workspace'],
): Promise<string | undefined> {
  let found = workspace
  for (let left = MAX_ORIGINS; found?.kind === 'run' && left > 0; left--)
    found = (await store.readRun(found.runId))?.workspace
  return found?.kind === 'git' ? found.url : undefined
}

/** Everybody may read what holds for all runs, and for a repository. The policy of an owner concerns nobody else. */
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
  const { host, port, path } = parsed.repository
  // Many servers ignore case, so another spelling must not be a way around the policy.
  return `${SETTING}/repository/${host}:${port}/${path.toLowerCase()}`
}

function wordsOf({ repository, owner }: PolicyScope): string {
  if (owner !== undefined) return ` for runs of ${owner}`
  return repository === undefined ? '' : ` for runs on ${repository}`
}

const differing = (before: SandboxSettings, after: SandboxSettings): string[] =>
  SETTING_NAMES.filter((name) => canonicalJson(before[name] ?? null) !== canonicalJson(after[name] ?? null))

export type SandboxPolicy = ReturnType<typeof createSandboxPolicy>
