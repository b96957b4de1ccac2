import { patchPaths } from '../../runtime/kit/patch/parse-patch.ts'
import { visible } from '../terminal/visible.ts'

type Arguments = Readonly<Record<string, unknown>>

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null))

const lines = ({ start_line: start, end_line: end }: Arguments): string =>
  start === undefined && end === undefined ? '' : `:${text(start ?? 1)}-${end === undefined ? '' : text(end)}`

/** The files that a patch changes, as the tool reads them; a patch that it refuses changes none. */
const patched = (patch: string): string => {
  const named = patchPaths(patch)
  return named.ok ? named.paths.join(', ') : named.message
}

/** The one thing about a call that a person wants to see first. */
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

/** A tool call's arguments in a few words, hidden characters made visible. */
export function requestWords(tool: string, request: unknown): string {
  // AgentHost shows arguments that are no JSON, or too long, as null.
  if (request === null) return '(unusable arguments)'
  const words = isArguments(request) ? WORDS[tool]?.(request) : undefined
  return visible(words ?? text(request))
}
