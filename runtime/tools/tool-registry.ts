import * as z from 'zod'
import type { SandboxSettings } from '../../contracts/policy.ts'
import type { Toolbox } from '../../contracts/toolbox.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import { applyPatchTool } from './apply-patch.ts'
import { createFileTool } from './create-tool.ts'
import { editTool, strReplaceEditorTool } from './edit-tools.ts'
import { failure } from './outcome.ts'
import { readFileTool } from './read-file.ts'
import { askQuestionTool, reportIntentTool, reportOutcomeTool } from './report-tools.ts'
import { runCommandTool } from './run-command.ts'
import { fileSearchTool, grepSearchTool } from './search-tools.ts'
import { openPlainText, type TextFilter } from './text-filter.ts'
import type { Tool, ToolCall, ToolDefinition, ToolDeps, ToolIo } from './tool.ts'

export interface ToolRegistryOptions {
  readonly toolbox: Toolbox
  readonly settings: SandboxSettings
  /** Whether the toolbox's isolation is real, or the operator accepted that it is not. */
  readonly shellAcceptable: boolean
  /** Creates the filter that output and file contents pass before they are truncated. @default plain UTF-8 */
  readonly openFilter?: () => TextFilter
}

export interface ToolRegistry {
  readonly definitions: readonly ToolDefinition[]
  /**
   * Runs a call. Whether the call is allowed was decided before. Returns an outcome for everything that the
   * workspace or the command did; throws only if the toolbox itself failed.
   */
  run(call: ToolCall, io: ToolIo): Promise<ToolOutcome>
}

/** Creates the tools of a run: the same for every agent, local or in a pod. */
export function createToolRegistry(options: ToolRegistryOptions): ToolRegistry {
  const deps: ToolDeps = { ...options, openFilter: options.openFilter ?? openPlainText }
  const offersShell = options.settings.shell_enabled && options.shellAcceptable
  const tools: readonly Tool[] = [
    ...(offersShell ? [runCommandTool(deps)] : []),
    readFileTool(deps),
    grepSearchTool(deps),
    fileSearchTool(deps),
    strReplaceEditorTool(deps),
    applyPatchTool(deps),
    createFileTool(deps),
    editTool(deps),
    reportIntentTool(),
    askQuestionTool(),
    reportOutcomeTool(),
  ]
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  return { definitions: tools.map(definitionOf), run: (call, io) => runTool(byName.get(call.tool), call, io) }
}

async function runTool(tool: Tool | undefined, call: ToolCall, io: ToolIo): Promise<ToolOutcome> {
  if (tool === undefined) return failure('unknown_tool', `There is no tool "${call.tool}"`)
  if (io.signal.aborted) return CANCELLED
  try {
    return await tool.run(call.arguments, io)
  } catch (error) {
    if (io.signal.aborted) return CANCELLED
    throw error
  }
}

const CANCELLED = failure('cancelled', 'The call was cancelled')

/**
 * Caches JSON Schemas, which are the same for every run: creating one takes a millisecond, and a run waits for
 * all of them.
 */
const written = new WeakMap<z.ZodType, ToolDefinition['parameters']>()

function definitionOf({ name, description, schema }: Tool): ToolDefinition {
  const parameters = written.get(schema) ?? parametersOf(schema)
  written.set(schema, parameters)
  return { name, description, parameters }
}

function parametersOf(schema: z.ZodType): ToolDefinition['parameters'] {
  const { $schema: _dialect, ...parameters } = z.toJSONSchema(schema, { io: 'input' })
  return parameters
}
