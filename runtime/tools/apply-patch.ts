import { TOOL_ARGUMENTS } from '../../contracts/tools.ts'
import { parsePatch } from '../kit/patch/parse-patch.ts'
import { failure, success } from './outcome.ts'
import { type PlannedWrite, planPatch } from './plan-patch.ts'
import { defineTool, type Tool, type ToolDeps } from './tool.ts'
import { WorkspaceFiles } from './workspace-files.ts'
import { writeAllOrNothing } from './write-all-or-nothing.ts'

export const applyPatchTool = ({ toolbox }: ToolDeps): Tool => {
  const files = new WorkspaceFiles(toolbox)
  return defineTool({
    name: 'apply_patch',
    description: [
      'Change several places or files of the workspace at once, all or nothing. The patch is a unified diff,',
      'or lies between "*** Begin Patch" and "*** End Patch" with sections "*** Add File: path",',
      '"*** Update File: path" (optional "*** Move to: path", then hunks that begin with "@@") and',
      '"*** Delete File: path". Lines of a hunk begin with " " (context), "-" or "+".',
      'Context and removed lines must match the file exactly.',
    ].join(' '),
    schema: TOOL_ARGUMENTS.apply_patch,
    run: async ({ patch }, { signal }) => {
      const parsed = parsePatch(patch)
      if (!parsed.ok) return failure('invalid_patch', `The patch cannot be parsed: ${parsed.message}`)
      const plan = await planPatch(files, parsed.changes, signal)
      if (!plan.ok) return failure(plan.code, `${plan.message}. Nothing was changed`)
      const written = await writeAllOrNothing(files, plan.writes)
      if (!written.ok) return failure(written.code, written.message)
      return success(plan.writes.map(sentence).join('\n'), { files: plan.writes.length })
    },
  })
}

function sentence(write: PlannedWrite): string {
  if (write.kind === 'add') return `Added ${write.path}`
  if (write.kind === 'delete') return `Deleted ${write.path}`
  if (write.kind === 'update') return `Updated ${write.path}`
  return `Moved ${write.path} to ${write.movedTo}`
}
