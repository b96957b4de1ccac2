import { TOOL_ARGUMENTS } from '../../contracts/tools.ts'
import { failure, success } from './outcome.ts'
import { defineTool, type Tool, type ToolDeps } from './tool.ts'
import { refusal, WorkspaceFiles } from './workspace-files.ts'

/** `create` never overwrites a file: a model that is wrong about existing files must not destroy one. */
export const createFileTool = ({ toolbox }: ToolDeps): Tool => {
  const files = new WorkspaceFiles(toolbox)
  return defineTool({
    name: 'create',
    description: 'Create a new file in the workspace, with missing parent folders. Fails if the file exists.',
    schema: TOOL_ARGUMENTS.create,
    run: async ({ path, file_text: text }) => {
      const written = await files.write(path, text, { create: 'exclusive' })
      if (written.ok) return success(`Created ${path}.`, { bytes: Buffer.byteLength(text) })
      if (written.code !== 'exists') return refusal(written)
      return failure(
        'exists',
        `${path} exists already. Use edit, str_replace_editor or apply_patch to change it`,
      )
    },
  })
}
