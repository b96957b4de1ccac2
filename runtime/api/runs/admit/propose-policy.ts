import { createHash } from 'node:crypto'
import { SETTINGS_FILE } from '../../../../contracts/policy.ts'
import {
  MAX_PROPOSED_FILE,
  type PolicyProposal,
  type ProposalScope,
  type ProposePolicy,
} from '../../../../contracts/policy-proposal.ts'
import { editSettings } from '../../../../policies/agent/edit-settings.ts'
import { parseGitUrl, repositoryKey } from '../../../../policies/agent/egress/git-url.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import { patchOfFile } from '../results/unified-diff.ts'
import type { Caller, RunService } from '../service.ts'
import { problemsOf, type SandboxPolicy, settingsOfRun } from './sandbox-policy.ts'
import { parseSettings } from './settings-file.ts'

/** How many of the caller's last runs are looked at. */
const MAX_RUNS = 200

/** Limit of the comparison, which blocks the event loop. Beyond it, the diff replaces the whole file. */
const MAX_COMPARE_MS = 40

interface LastRuns {
  listRuns(filter: {
    readonly owner: string
    readonly limit: number
  }): Promise<{ readonly items: readonly Pick<RunRow, 'id' | 'workspace'>[] }>
}

type Base = { readonly base: PolicyProposal['base']; readonly text: string | undefined }

/** Changes of the settings file of a repository, which people apply themselves. Nothing is stored. */
export function createPolicyProposals(
  { store }: { readonly store: LastRuns },
  policy: Pick<SandboxPolicy, 'of' | 'read'>,
): Pick<RunService, 'proposePolicy'> {
  return {
    async proposePolicy(caller, wanted, scope = {}) {
      const above = await policy.read(caller, scope)
      const problems = problemsOf(above, wanted.settings)
      if (problems.length > 0) throw new SandboxError('invalid_request', problems.join('; '))
      const { base, text } = await presentFile(store, caller, { wanted, scope })
      requireShort(text, `the present settings file${whose(base)}`)
      const edit = editSettings(text ?? '', { settings: wanted.settings, replaces: wanted.replace })
      if (!edit.ok)
        throw new SandboxError(
          'invalid_request',
          `the present settings file${whose(base)}, line ${edit.line}: ${edit.reason}`,
        )
      requireShort(edit.text, 'the changed settings file')
      const patch = parseSettings(edit.text, 'the changed settings file')
      return {
        ...{ path: SETTINGS_FILE.path, base, text: edit.text, diff: diffOf(text, edit.text) },
        settings: settingsOfRun(await policyOfRun(policy, caller, scope), patch),
      }
    },
  }
}

/** The policy of a run that the caller starts, with the one of the owner. */
const policyOfRun = ({ of }: Pick<SandboxPolicy, 'of'>, { owner }: Caller, { repository }: ProposalScope) =>
  of({ owner, ...(repository !== undefined && { workspace: { kind: 'git', url: repository } }) })

function requireShort(text: string | undefined, file: string): void {
  if (text === undefined || text.length <= MAX_PROPOSED_FILE) return
  throw new SandboxError(
    'invalid_request',
    `${file} has more than ${MAX_PROPOSED_FILE} characters, the most that a proposal can change`,
  )
}

const whose = (base: Base['base']): string => (base.kind === 'run' ? ` of the run ${base.runId}` : '')

interface Wanted {
  readonly wanted: ProposePolicy
  readonly scope: ProposalScope
}

/** The text of the request, or the one that came with the caller's last run on the repository. */
async function presentFile(
  store: LastRuns,
  { owner }: Caller,
  { wanted: { file }, scope: { repository } }: Wanted,
): Promise<Base> {
  if (file !== undefined) return { base: { kind: 'request' }, text: file ?? undefined }
  const none: Base = { base: { kind: 'none' }, text: undefined }
  if (repository === undefined) return none
  const key = keyOf(repository)
  const { items } = await store.listRuns({ owner, limit: MAX_RUNS })
  for (const { id, workspace } of items)
    if (workspace.kind === 'git' && keyOf(workspace.url) === key)
      return workspace.settings === undefined
        ? none
        : { base: { kind: 'run', runId: id }, text: workspace.settings }
  return none
}

function keyOf(url: string): string | undefined {
  const parsed = parseGitUrl(url)
  return parsed.ok ? repositoryKey(parsed.repository) : undefined
}

function diffOf(before: string | undefined, after: string): string {
  if ((before ?? '') === after) return ''
  const [old, recent] = [before, after].map((text) => (text === undefined ? undefined : Buffer.from(text)))
  const version = (bytes: Buffer | undefined) =>
    bytes && {
      ...{ mode: 'file' as const, size: bytes.length },
      sha256: createHash('sha256').update(bytes).digest('hex'),
    }
  const { text } = patchOfFile(
    { path: SETTINGS_FILE.path, before: version(old), after: version(recent) },
    { before: old, after: recent },
    MAX_COMPARE_MS,
  )
  return Buffer.from(text, 'latin1').toString('utf8')
}
