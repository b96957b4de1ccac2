import { TOOL_ARGUMENTS, type ToolOutcome } from '../../contracts/tools.ts'
import { failure, success } from './outcome.ts'
import { replaceText } from './replace-text.ts'
import { defineTool, type Tool, type ToolDeps, type ToolIo } from './tool.ts'
import { refusal, WorkspaceFiles } from './workspace-files.ts'

const EXACT = 'old_str must be the text of the file exactly, with its blanks, and without line numbers.'

type Edit = { readonly path: string; readonly old: string; readonly new: string; readonly all: boolean }

export const strReplaceEditorTool = ({ toolbox }: ToolDeps): Tool => {
  const files = new WorkspaceFiles(toolbox)
  return defineTool({
    name: 'str_replace_editor',
    description: `Replace a piece of text in a file of the workspace. It must occur exactly once. ${EXACT}`,
    schema: TOOL_ARGUMENTS.str_replace_editor,
    run: ({ path, old_str, new_str }, io) =>
      edit(files, { path, old: old_str, new: new_str, all: false }, io),
  })
}

export const editTool = ({ toolbox }: ToolDeps): Tool => {
  const files = new WorkspaceFiles(toolbox)
  return defineTool({
    name: 'edit',
    description: [
      'Replace text in an existing file of the workspace: one occurrence that must be the only one, or every',
      `occurrence where replace_all is true. ${EXACT}`,
    ].join(' '),
    schema: TOOL_ARGUMENTS.edit,
    run: ({ path, old_str, new_str, replace_all }, io) =>
      edit(files, { path, old: old_str, new: new_str, all: replace_all ?? false }, io),
  })
}

async function edit(files: WorkspaceFiles, change: Edit, { signal }: ToolIo): Promise<ToolOutcome> {
  const { path } = change
  if (change.old === change.new) return failure('no_change', 'old_str and new_str are equal')
  const read = await files.readText(path, signal)
  if (!read.ok) return refusal(read)
  const replaced = replaceText(read.text, change)
  if (!replaced.ok) return failure(replaced.code, whyNot(path, replaced.count))
  const written = await files.write(path, replaced.text, { create: 'never' })
  if (!written.ok) return refusal(written)
  const times = replaced.count === 1 ? 'once' : `${replaced.count} times`
  return success(`Replaced ${times} in ${path}.`, { replacements: replaced.count })
}

const whyNot = (path: string, count: number): string =>
  count === 0
    ? `old_str does not occur in ${path} (0 matches). Read the file again and give its text exactly`
    : `old_str occurs ${count} times in ${path}. Add lines around it until it is the only one`
