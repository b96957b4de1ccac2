import type { RunRow } from '../../../store/store.ts'

type Lost = Pick<RunRow, 'id' | 'kind' | 'workspace' | 'checkpointAt' | 'sandbox'>

/**
 * Text for the owner of a run whose sandbox is gone: the last checkpoint, where the files are, and how to start
 * again.
 */
export function lossWords(run: Lost): string {
  const again = run.kind === 'agent' ? 'Start the run again to go on.' : 'Create a new sandbox to go on.'
  return `${checkpointWords(run)} ${filesWords(run)} ${again}`
}

const checkpointWords = ({ kind, checkpointAt }: Lost): string => {
  if (checkpointAt !== undefined) return `The last checkpoint is of ${checkpointAt}.`
  return kind === 'agent'
    ? 'There is no checkpoint: one is made after each turn, and none had ended.'
    : 'There is no checkpoint: one of a sandbox is made when it is destroyed.'
}

function filesWords({ id, workspace, checkpointAt, sandbox }: Lost): string {
  if (sandbox === undefined) return 'It had not begun, so nothing of it is lost.'
  if (workspace.kind === 'path') {
    const where = workspace.mode === 'isolated' ? 'in its copy of the folder' : 'in the folder itself'
    return `What it changed ${where} is kept: see "agentweaver diff ${id}".`
  }
  if (checkpointAt !== undefined)
    return `GET /api/runs/${id}/workspace gives the files as they were then; later changes are lost.`
  if (workspace.kind === 'run') return `Its changes to the files of ${workspace.runId} are lost.`
  if (workspace.kind === 'git') return 'Its changes to the repository are lost.'
  return workspace.kind === 'upload' ? 'Its changes to the uploaded files are lost.' : 'Its files are lost.'
}
