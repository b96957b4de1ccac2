import * as z from 'zod'
import { EXEC_LIMITS } from './exec.ts'
import { FILE_LIMITS } from './limits.ts'

/** Arguments of model tools keep snake_case, as the models' ecosystem writes them. */
const path = z.string().min(1).max(FILE_LIMITS.maxPathBytes).describe('Path relative to the workspace root')
const text = z.string().max(FILE_LIMITS.maxWriteBytes)

/** The nine tools of every runner. One schema each; the registry, the model and the policy use the same. */
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

/** Control tools: outside the nine, with rules of their own. */
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

/** What a tool call came to, as the model reads it and as `tool.result` carries it. */
export const ToolOutcome = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    /** The text the model gets. */
    content: z.string(),
    /** Facts for people and the audit: exit code, bytes, truncation. Never contents. */
    facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).default({}),
  }),
  z.strictObject({ ok: z.literal(false), code: z.string(), message: z.string() }),
])
export type ToolOutcome = z.infer<typeof ToolOutcome>

/** Longest `report_intent` that is kept, in characters. */
export const INTENT_MAX_CHARACTERS = 2000
