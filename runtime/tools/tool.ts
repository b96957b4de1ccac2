import type { z } from 'zod'
import type { ExecResult, OutputStream } from '../../contracts/exec.ts'
import type { SandboxSettings } from '../../contracts/policy.ts'
import type { Toolbox } from '../../contracts/toolbox.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import { problemsOf } from '../kit/parse-env.ts'
import { failure } from './outcome.ts'
import type { TextFilter } from './text-filter.ts'

/** What a model is told of a tool. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema of the arguments: an object that takes no other keys. */
  readonly parameters: Record<string, unknown>
}

export interface ToolCall {
  readonly callId: string
  readonly tool: string
  readonly arguments: unknown
}

/** What one call may reach while it runs. */
export interface ToolIo {
  readonly signal: AbortSignal
  /** Output of a command as it happens, through the registry's text filter. Awaited: a slow reader slows it. */
  readonly emitOutput: (stream: OutputStream, text: string) => void | Promise<void>
  /** How the command of this call ended, before the outcome is made of it. */
  readonly onExit?: (result: ExecResult) => void
  /** The answer of a person, for `ask_question`. */
  readonly answer?: string
}

export interface ToolDeps {
  readonly toolbox: Toolbox
  readonly settings: SandboxSettings
  readonly openFilter: () => TextFilter
}

/** One tool: its words for the model, the schema of its arguments, and its effect. */
export interface Tool {
  readonly name: string
  readonly description: string
  readonly schema: z.ZodType
  run(args: unknown, io: ToolIo): Promise<ToolOutcome>
}

type ToolParts<S extends z.ZodType> = {
  readonly name: string
  readonly description: string
  readonly schema: S
  readonly run: (args: z.infer<S>, io: ToolIo) => Promise<ToolOutcome> | ToolOutcome
}

/** Ties a tool's effect to its schema: arguments are parsed by the very schema that the model was shown. */
export function defineTool<S extends z.ZodType>({ name, description, schema, run }: ToolParts<S>): Tool {
  return {
    name,
    description,
    schema,
    run: async (args, io) => {
      const parsed = schema.safeParse(args)
      if (parsed.success) return run(parsed.data, io)
      return failure(
        'invalid_arguments',
        `The arguments of ${name} have problems:\n${problemsOf(parsed.error)}`,
      )
    },
  }
}
