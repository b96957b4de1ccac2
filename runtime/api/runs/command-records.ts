import type { StartCommand } from '../../../contracts/api.ts'
import type { HostCommandInput } from '../../../contracts/exec.ts'
import type { SandboxSettings } from '../../../contracts/policy.ts'
import type { AuditDraft } from '../../audit/chain.ts'
import type { CommandRow, RunRow } from '../../store/store.ts'

/** The body that starts a command in the sandbox. The same row always gives the same body, so a repeated request has no effect. */
export function hostCommandOf(command: StartCommand, settings: SandboxSettings): HostCommandInput {
  return {
    ...command,
    maxOutputBytes: Math.min(command.maxOutputBytes, settings.max_output_bytes),
    maxWorkspaceBytes: settings.max_workspace_bytes,
    maxWorkspaceFiles: settings.max_workspace_files,
    readOnlyRoots: settings.allowed_repository_roots,
  }
}

/** The audit record of the end of a command that a person started. */
export const commandEnd = (
  run: RunRow,
  { id, actor = `person:${run.owner}` }: CommandRow,
  facts: Pick<AuditDraft, 'at' | 'outcome' | 'durationMs' | 'bytes' | 'exitCode'>,
): AuditDraft => ({
  kind: 'outcome',
  runId: run.id,
  callId: id,
  actor,
  tool: 'exec',
  policyVersion: run.policyVersion,
  ...facts,
})
