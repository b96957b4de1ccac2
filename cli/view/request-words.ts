import { patchPaths } from '../../runtime/kit/patch/parse-patch.ts'
import { visible } from '../terminal/visible.ts'

type Arguments = Readonly<Record<string, unknown>>

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))

const lines = ({ start_line: start, end_line: end }: Arguments): string =>
  start === undefined && end === undefined ? '' : `:${text(start ?? 1)}-${end === undefined ? '' : text(end)}`

/** Paths in a patch, or the reason why the tool rejects the patch. */
const patched = (patch: string): string => {
  const named = patchPaths(patch)
  return named.ok ? named.paths.join(', ') : named.message
}

/** The most important argument of each tool. */
const WORDS: Readonly<Record<string, (given: Arguments) => string>> = {
  run_command: (given) => text(given['command']),
  read_file: (given) => text(given['path']) + lines(given),
  grep_search: (given) =>
    text(given['pattern']) + (given['include_pattern'] ? `  in ${text(given['include_pattern'])}` : ''),
  file_search: (given) => text(given['pattern']),
  str_replace_editor: (given) => text(given['path']),
  apply_patch: (given) => patched(text(given['patch'])),
  create: (given) => text(given['path']),
  edit: (given) => text(given['path']),
}

const isArguments = (value: unknown): value is Arguments =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Short text for a tool call's arguments, with hidden characters escaped. */
export function requestWords(tool: string, request: unknown): string {
  // AgentHost replaces arguments that are not JSON, or too long, by null.
  if (request === null) return '(unusable arguments)'
  const words = isArguments(request) ? WORDS[tool]?.(request) : undefined
  return visible(words ?? text(request))
}
