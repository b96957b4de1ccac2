import { CONTROL_TOOL_ARGUMENTS, TOOL_ARGUMENTS } from '../../../contracts/tools.ts'
import { fieldProblems } from '../../kit/parse-env.ts'
import type { ToolRequest } from '../request.ts'
import { deny, type Finding } from './rule.ts'

const SCHEMAS = { ...TOOL_ARGUMENTS, ...CONTROL_TOOL_ARGUMENTS }

type ArgumentsParse =
  | { readonly ok: true; readonly parsed: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly finding: Finding }

/** Validates arguments against the tool's schema. The denial names each invalid field. */
export function parseArguments({ tool, arguments: given }: ToolRequest): ArgumentsParse {
  if (!Object.hasOwn(SCHEMAS, tool)) return { ok: false, finding: deny('the tool has no schema') }
  const result = SCHEMAS[tool as keyof typeof SCHEMAS].safeParse(given)
  if (result.success) return { ok: true, parsed: result.data }
  const problems = fieldProblems(result.error)
    .slice(0, 8)
    .map(({ field, message }) => `${field || 'arguments'}: ${message}`)
  return { ok: false, finding: deny(`invalid arguments: ${problems.join('; ')}`) }
}
