import type { Document } from 'yaml'
import { SandboxSettingsPatch, SETTINGS_FILE } from '../../contracts/policy.ts'
import { type CommandPattern, parseCommandPattern } from './command-pattern.ts'
import { parseYaml, type YamlFault } from './yaml.ts'

/**
 * Maximum number of alternatives in all patterns of one patch. Every word of a command may be compared with each of
 * them, so without a limit a hostile file could keep the service busy for seconds with one command.
 */
const MAX_ALTERNATIVES = 1024

/** `SandboxSettingsPatch` that also parses its command patterns. */
const RepositorySettings = SandboxSettingsPatch.superRefine((patch, context) => {
  for (const { index, message } of patternProblems(patch)) {
    context.addIssue({ code: 'custom', path: ['destructive_command_patterns', index], message })
  }
})

export type RepositorySettingsParse = { readonly ok: true; readonly patch: SandboxSettingsPatch } | YamlFault

/** Parses `.agentweaver/settings.yml`. An empty file changes nothing; unknown or malformed content is rejected. */
export function parseRepositorySettings(text: string): RepositorySettingsParse {
  const parsed = parseSettingsDocument(text)
  return parsed.ok ? { ok: true, patch: parsed.patch } : parsed
}

/** Parses the file, and also returns the document, for changes of the file. */
export function parseSettingsDocument(
  text: string,
):
  | { readonly ok: true; readonly patch: SandboxSettingsPatch; readonly document: Document.Parsed }
  | YamlFault {
  if (text.length > SETTINGS_FILE.maxBytes) {
    return { ok: false, line: 1, reason: `the file is longer than ${SETTINGS_FILE.maxBytes} characters` }
  }
  const parsed = parseYaml(text, RepositorySettings)
  if (parsed.ok) return { ok: true, patch: parsed.value, document: parsed.document }
  if (!parsed.reason.startsWith('direct: ')) return parsed
  return { ...parsed, reason: 'direct: only the operator of the deployment can set it' }
}

/** Returns the patterns of a patch that are invalid, with the reason. The API reports them as field errors. */
export function patternProblems(patch: SandboxSettingsPatch): { index: number; message: string }[] {
  let alternatives = 0
  return (patch.destructive_command_patterns ?? []).flatMap((text, index) => {
    const parsed = parseCommandPattern(text)
    if (!parsed.ok) return [{ index, message: `pattern "${text}" ${parsed.reason}` }]
    const before = alternatives
    alternatives += alternativesOf(parsed.pattern)
    if (before > MAX_ALTERNATIVES || alternatives <= MAX_ALTERNATIVES) return []
    return [
      { index, message: `the patterns up to here have more than ${MAX_ALTERNATIVES} alternatives in all` },
    ]
  })
}

const alternativesOf = ({ stages }: CommandPattern): number =>
  stages
    .flatMap(({ names, words }) => [names, ...words.map((word) => ('anyOf' in word ? word.anyOf : []))])
    .reduce((sum, anyOf) => sum + anyOf.length, 0)
