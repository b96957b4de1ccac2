import type { z } from 'zod'
import type { ExecResult, OutputStream } from '../../contracts/exec.ts'
import type { SandboxSettings } from '../../contracts/policy.ts'
import type { Toolbox } from '../../contracts/toolbox.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import { problemsOf } from '../kit/parse-env.ts'
import { failure } from './outcome.ts'
import type { TextFilter } from './text-filter.ts'

/** The description of a tool for the model. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema of the arguments: an object without additional properties. */
  readonly parameters: Record<string, unknown>
}

export interface ToolCall {
  readonly callId: string
  readonly tool: string
  readonly arguments: unknown
}

/** The context of one call. */
export interface ToolIo {
  readonly signal: AbortSignal
  /** Receives a command's output as it is produced, filtered. Awaited, so a slow reader slows the command down. */
  readonly emitOutput: (stream: OutputStream, text: string) => void | Promise<void>
  /** Called with the result of the command, before the outcome is created. */
  readonly onExit?: (result: ExecResult) => void
  /** The user's answer, for `ask_question`. */
  readonly answer?: string
}

export interface ToolDeps {
  readonly toolbox: Toolbox
  readonly settings: SandboxSettings
  readonly openFilter: () => TextFilter
}

/** A tool: its description for the model, its argument schema, and its effect. */
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

/** Creates a tool. Arguments are parsed with the same schema that the model receives. */
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
