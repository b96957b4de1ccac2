import { patchPaths } from '../../kit/patch/parse-patch.ts'
import { checkPathSpelling } from '../path-spelling.ts'
import { deny, type Finding, type Rule, type RuleContext } from './rule.ts'

type Parsed = RuleContext['parsed']

/** Arguments that are paths, by tool. Tools that are not listed have no path argument. */
const PATH_ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  run_command: ['directory'],
  read_file: ['path'],
  str_replace_editor: ['path'],
  create: ['path'],
  edit: ['path'],
}
const GLOB_ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  grep_search: ['include_pattern'],
  file_search: ['pattern'],
}

/** Layer B: every path, glob and patch path must be spelled as a path below the workspace. */
export const containedPaths: Rule = {
  name: 'contained-paths',
  judge: ({ request: { tool }, parsed }) =>
    firstOf(PATH_ARGUMENTS[tool], parsed, checkPath) ??
    firstOf(GLOB_ARGUMENTS[tool], parsed, checkGlob) ??
    (tool === 'apply_patch' ? checkPatch(String(parsed['patch'])) : undefined),
}

function firstOf(
  keys: readonly string[] = [],
  parsed: Parsed,
  check: (text: string) => string | undefined,
): Finding {
  for (const key of keys) {
    const value = parsed[key]
    const problem = typeof value === 'string' ? check(value) : undefined
    if (problem !== undefined) return deny(`${key}: ${problem}`)
  }
  return undefined
}

function checkPath(path: string): string | undefined {
  const spelling = checkPathSpelling(path)
  return spelling.ok ? undefined : spelling.message
}

/**
 * A glob is matched only against names below the workspace root. A glob that is written to leave it is denied,
 * so that the agent learns why it finds nothing.
 */
function checkGlob(glob: string): string | undefined {
  if (/^[\\/]|^[A-Za-z]:[\\/]/.test(glob)) return `${JSON.stringify(glob)} is absolute`
  const leaves = glob.split(/[\\/{},]/).includes('..')
  if (glob.includes('\0')) return 'contains a NUL character'
  return leaves ? `${JSON.stringify(glob)} contains ".."` : undefined
}

function checkPatch(patch: string): Finding {
  const named = patchPaths(patch)
  if (!named.ok) return deny(`patch: ${named.message}`)
  for (const path of named.paths) {
    const problem = checkPath(path)
    if (problem !== undefined) return deny(`patch: ${problem}`)
  }
  return undefined
}
