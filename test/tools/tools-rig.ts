import { SandboxSettings } from '../../contracts/policy.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import type { ToolIo } from '../../runtime/tools/tool.ts'
import { createToolRegistry, type ToolRegistryOptions } from '../../runtime/tools/tool-registry.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'

export const aRegistry = (options: Partial<ToolRegistryOptions> = {}) =>
  createToolRegistry({
    toolbox: new MemoryToolbox(),
    settings: SandboxSettings.parse({}),
    shellAcceptable: true,
    ...options,
  })

type CallOptions = Partial<Omit<ToolRegistryOptions, 'toolbox'>> & { readonly io?: Partial<ToolIo> }

/** Returns a function that runs calls on a toolbox. */
export const callsOn =
  (toolbox: MemoryToolbox, { io = {}, ...options }: CallOptions = {}) =>
  (tool: string, args: Record<string, unknown>): Promise<ToolOutcome> =>
    aRegistry({ toolbox, ...options }).run(
      { callId: 'call-1', tool, arguments: args },
      { signal: new AbortController().signal, emitOutput: () => undefined, ...io },
    )

export const contentOf = (outcome: ToolOutcome): string => {
  if (outcome.ok) return outcome.content
  throw new Error(`${outcome.code}: ${outcome.message}`)
}
