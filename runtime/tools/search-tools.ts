import { FILE_LIMITS } from '../../contracts/limits.ts'
import { TOOL_ARGUMENTS } from '../../contracts/tools.ts'
import { success } from './outcome.ts'
import { defineTool, type Tool, type ToolDeps } from './tool.ts'
import { refusal } from './workspace-files.ts'

const SKIPPED = 'Links and the folders .git, node_modules, bin, obj and .vs are skipped.'
const MORE = '[… there are more: narrow the pattern or raise max_results …]'

export const grepSearchTool = ({ toolbox }: ToolDeps): Tool =>
  defineTool({
    name: 'grep_search',
    description: [
      'Search the text files of the workspace, line by line. The pattern is plain text unless is_regex is true',
      '(RE2 syntax: no look-around, no back references). Each line of the result is path:line: text.',
      `${SKIPPED} Default ${FILE_LIMITS.grepDefault} results, at most ${FILE_LIMITS.grepMax}.`,
    ].join(' '),
    schema: TOOL_ARGUMENTS.grep_search,
    run: async (args, { signal }) => {
      const operation = {
        op: 'grep' as const,
        pattern: args.pattern,
        isRegex: args.is_regex ?? false,
        ...(args.include_pattern === undefined ? {} : { include: args.include_pattern }),
        ...(args.max_results === undefined ? {} : { maxResults: args.max_results }),
      }
      const { result } = await toolbox.file(operation, { signal })
      if (!result.ok) return refusal(result)
      const lines = (result.matches ?? []).map(({ path, line, text }) => `${path}:${line}: ${text}`)
      return found(lines, result.truncated ?? false)
    },
  })

export const fileSearchTool = ({ toolbox }: ToolDeps): Tool =>
  defineTool({
    name: 'file_search',
    description: [
      'Find files of the workspace by a glob over their paths, for example "src/**/*.ts" or "**/README*".',
      `${SKIPPED} Default ${FILE_LIMITS.filesDefault} results, at most ${FILE_LIMITS.filesMax}.`,
    ].join(' '),
    schema: TOOL_ARGUMENTS.file_search,
    run: async (args, { signal }) => {
      const operation = {
        op: 'find' as const,
        pattern: args.pattern,
        ...(args.max_results === undefined ? {} : { maxResults: args.max_results }),
      }
      const { result } = await toolbox.file(operation, { signal })
      return result.ok ? found(result.paths ?? [], result.truncated ?? false) : refusal(result)
    },
  })

function found(lines: readonly string[], truncated: boolean) {
  const content = lines.length === 0 ? 'Nothing matches.' : lines.join('\n')
  return success(truncated ? `${content}\n${MORE}` : content, { results: lines.length, truncated })
}
