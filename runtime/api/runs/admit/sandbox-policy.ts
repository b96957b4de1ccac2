import { randomUUID } from 'node:crypto'
import { SandboxSettings, SandboxSettingsPatch } from '../../../../contracts/policy.ts'
import { patternProblems } from '../../../../policies/agent/settings.ts'
import { tighten, widenings } from '../../../../policies/agent/tighten.ts'
import { canonicalJson } from '../../../kit/canonical-json.ts'
import { SandboxError } from '../../../kit/errors.ts'
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

/** The deployment's policy: what operators stored, under the ceiling. It can only tighten the ceiling. */
export function createSandboxPolicy(
  { store, ceiling, governance, clock }: Pick<RunDeps, 'store' | 'ceiling' | 'governance' | 'clock'>,
  audit: AuditTrail,
) {
  const stored = async (): Promise<SandboxSettingsPatch> =>
    SandboxSettingsPatch.parse(JSON.parse((await store.readSetting(SETTING)) ?? '{}'))

  async function write(caller: Caller, patch: SandboxSettingsPatch): Promise<SandboxSettings> {
    if (caller.role !== 'operator')
      throw new SandboxError('forbidden', 'only an operator may change the policy')
    const problems = problemsOf(ceiling, patch)
    if (problems.length > 0) throw new SandboxError('invalid_request', problems.join('; '))
    const settings = tighten(ceiling, patch)
    const before = tighten(ceiling, await stored())
    await store.transaction(async (tx) => {
      await tx.writeSetting(SETTING, JSON.stringify(patch))
      await audit.append(tx, '', [
        {
          kind: 'policy.changed',
          runId: '',
          callId: `policy_${randomUUID().replaceAll('-', '')}`,
          actor: `person:${caller.owner}`,
          tool: 'policy.change',
          params: patch,
          policyVersion: governance.version(settings),
          reasons: differing(before, settings).map((field) => `changes ${field}`),
          at: clock().toISOString(),
        },
      ])
      await caller.keep?.(tx, settings)
    })
    return settings
  }

  return {
    read: async (): Promise<SandboxSettings> => tighten(ceiling, await stored()),
    replace: write,
    merge: async (caller: Caller, patch: SandboxSettingsPatch): Promise<SandboxSettings> =>
      write(caller, { ...(await stored()), ...patch }),
  }
}

const differing = (before: SandboxSettings, after: SandboxSettings): string[] =>
  SETTING_NAMES.filter((name) => canonicalJson(before[name] ?? null) !== canonicalJson(after[name] ?? null))

export type SandboxPolicy = ReturnType<typeof createSandboxPolicy>
