import type { SessionConfigBase, Tool, ToolResultObject } from '@github/copilot-sdk'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import type { ToolDefinition } from '../../tools/tool.ts'
import type { ModelConfig } from './model-config.ts'
import { type MemorySessionFs, SESSION_ROOT } from './session-fs.ts'
import { textOf } from './suspended-turn.ts'
import { systemPrompt } from './system-prompt.ts'

/**
 * Native tools of the agent runtime. They are excluded by name and by wildcard, so that one of the two lists still works
 * if a new version ignores the other.
 */
const NATIVE_TOOLS = [
  'ask_user',
  'bash',
  'create',
  'edit',
  'exit_plan_mode',
  'fetch_copilot_cli_documentation',
  'glob',
  'grep',
  'list_agents',
  'list_bash',
  'ls',
  'manage_schedule',
  'notebook',
  'powershell',
  'read',
  'read_agent',
  'read_bash',
  'semantic_search',
  'shell',
  'skill',
  'sql',
  'stop_bash',
  'store_memory',
  'str_replace_editor',
  'task',
  'tool_search_tool',
  'update_todo',
  'view',
  'vote_memory',
  'web_fetch',
  'web_search',
  'webfetch',
  'websearch',
  'write',
  'write_agent',
  'write_bash',
] as const

/** A call that the runtime hands to us. */
export type SdkCall = {
  readonly tool: string
  readonly args: unknown
  readonly toolCallId: string
  /** Aborts when the runtime no longer waits for the result. */
  readonly signal?: AbortSignal | undefined
}

type CallTool = (call: SdkCall) => Promise<ToolOutcome>

export interface SessionParts {
  readonly model: ModelConfig
  readonly tools: readonly ToolDefinition[]
  readonly callTool: CallTool
  readonly charter: string | undefined
  readonly workingDirectory: string
  readonly sessionFs: MemorySessionFs
}

/** Configuration of a session, for its creation and for every resumption. */
export function sessionConfig(parts: SessionParts): SessionConfigBase {
  const { model, tools, charter, workingDirectory } = parts
  const names = new Set(tools.map((tool) => tool.name))
  return {
    clientName: 'agentweaver-sandbox',
    ...model,
    tools: tools.map((tool) => toSdkTool(tool, parts.callTool)),
    availableTools: [...names].map((name) => `custom:${name}`),
    excludedTools: ['builtin:*', 'mcp:*', ...NATIVE_TOOLS.map((name) => `builtin:${name}`)],
    onPermissionRequest: (request) =>
      request.kind === 'custom-tool' && names.has(request.toolName)
        ? { kind: 'approve-once' }
        : { kind: 'reject', feedback: 'Only the tools that were offered can be used' },
    systemMessage: { mode: 'replace', content: systemPrompt(tools, charter) },
    streaming: true,
    workingDirectory,
    configDirectory: workingDirectory,
    createSessionFsProvider: () => parts.sessionFs,
    // The SDK would write a large result to a file, and the model has no tool to read that file.
    largeOutput: { enabled: false },
    toolSearch: { enabled: false },
    memory: { enabled: false },
    enableSkills: false,
    enableFileHooks: false,
    enableHostGitOperations: false,
    enableConfigDiscovery: false,
    enableOnDemandInstructionDiscovery: false,
    enableSessionStore: false,
    enableSessionTelemetry: false,
    skipCustomInstructions: true,
    // With a GitHub token, the SDK would otherwise connect to GitHub's MCP server and send it the token.
    disabledMcpServers: ['github-mcp-server'],
    remoteSession: 'off',
  }
}

function toSdkTool({ name, description, parameters }: ToolDefinition, callTool: CallTool): Tool {
  return {
    name,
    description,
    parameters,
    // Some of our tools have the name of a native tool (`create`, `edit`), which the SDK allows only with this flag.
    overridesBuiltInTool: true,
    defer: 'never',
    handler: async (args, { signal, toolCallId }) =>
      toSdkResult(await callTool({ tool: name, args, toolCallId, signal })),
  }
}

/** The model gets a refusal as text. Lone surrogates, which a cut can leave, are invalid JSON for the runtime. */
export function toSdkResult(outcome: ToolOutcome): ToolResultObject {
  if (outcome.ok) return { textResultForLlm: outcome.content.toWellFormed(), resultType: 'success' }
  const text = textOf(outcome).toWellFormed()
  return { textResultForLlm: text, resultType: 'failure', error: text }
}

/** Location of the session files, which the client needs. It is the same for every session. */
export const sessionFsConfig = (initialCwd: string) => ({
  initialCwd,
  sessionStatePath: SESSION_ROOT,
  conventions: 'posix' as const,
})
