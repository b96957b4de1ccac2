import * as z from 'zod'
import { EXEC_LIMITS } from './exec.ts'
import { FILE_LIMITS } from './limits.ts'

/** Arguments are snake_case, because models are trained on tools with that spelling. */
const path = z.string().min(1).max(FILE_LIMITS.maxPathBytes).describe('Path relative to the workspace root')
const text = z.string().max(FILE_LIMITS.maxWriteBytes)

/** The nine workspace tools. The registry, the model and the policy all use these schemas. */
export const TOOL_ARGUMENTS = {
  run_command: z.strictObject({
    command: z.string().min(1).describe('A shell command line'),
    directory: z
      .string()
      .max(FILE_LIMITS.maxPathBytes)
      .optional()
      .describe('Working directory inside the workspace'),
    timeout_ms: z.int().min(1).max(EXEC_LIMITS.maxTimeoutMs).optional(),
  }),
  read_file: z.strictObject({
    path,
    start_line: z.int().min(1).optional().describe('First line, from 1'),
    end_line: z.int().min(1).optional().describe('Last line, inclusive'),
  }),
  grep_search: z.strictObject({
    pattern: z.string().min(1).max(4096),
    is_regex: z.boolean().optional(),
    include_pattern: z.string().max(1024).optional().describe('Glob of the files to search'),
    max_results: z.int().min(1).max(FILE_LIMITS.grepMax).optional(),
  }),
  file_search: z.strictObject({
    pattern: z.string().min(1).max(4096).describe('Glob over paths'),
    max_results: z.int().min(1).max(FILE_LIMITS.filesMax).optional(),
  }),
  str_replace_editor: z.strictObject({
    path,
    old_str: text.min(1).describe('Text that occurs exactly once'),
    new_str: text,
  }),
  apply_patch: z.strictObject({
    patch: text.min(1).describe('A unified diff, or a patch between *** Begin Patch and *** End Patch'),
  }),
  create: z.strictObject({ path, file_text: text }),
  edit: z.strictObject({ path, old_str: text.min(1), new_str: text, replace_all: z.boolean().optional() }),
  report_intent: z.strictObject({
    intent: z.string().min(1).max(20_000).describe('What you are about to do'),
  }),
} as const

/** Control tools. They do not touch the workspace and have their own policy rules. */
export const CONTROL_TOOL_ARGUMENTS = {
  ask_question: z.strictObject({
    question: z.string().min(1).max(4000),
    choices: z.array(z.string().min(1).max(200)).max(10).optional(),
  }),
  report_outcome: z.strictObject({
    outcome: z.enum(['succeeded', 'failed']),
    summary: z.string().max(8000).optional(),
  }),
} as const

export type ToolName = keyof typeof TOOL_ARGUMENTS
export type ControlToolName = keyof typeof CONTROL_TOOL_ARGUMENTS
export const TOOL_NAMES = Object.keys(TOOL_ARGUMENTS) as ToolName[]
export const CONTROL_TOOL_NAMES = Object.keys(CONTROL_TOOL_ARGUMENTS) as ControlToolName[]

/** Result of a tool call, as the model reads it and as the event `tool.result` carries it. */
export const ToolOutcome = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    /** Text for the model. */
    content: z.string(),
    /** Facts for people and the audit, such as exit code, bytes and truncation. Never contents. */
    facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).default({}),
  }),
  z.strictObject({ ok: z.literal(false), code: z.string(), message: z.string() }),
])
export type ToolOutcome = z.infer<typeof ToolOutcome>

/** Longer intents are cut to this number of characters. */
export const INTENT_MAX_CHARACTERS = 2000
