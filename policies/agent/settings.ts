import { SandboxSettingsPatch } from '../../contracts/policy.ts'
import { parseCommandPattern } from './command-pattern.ts'
import { parseYaml, type YamlFault } from './yaml.ts'

/** Far above any real settings file; a larger text is refused before it is parsed. */
const MAX_CHARACTERS = 65_536

/** `SandboxSettingsPatch` whose patterns are also checked to be patterns. */
const RepositorySettings = SandboxSettingsPatch.superRefine((patch, context) => {
  for (const { index, message } of patternProblems(patch)) {
    context.addIssue({ code: 'custom', path: ['destructive_command_patterns', index], message })
  }
})

export type RepositorySettingsParse = { readonly ok: true; readonly patch: SandboxSettingsPatch } | YamlFault

/** Parses `.agentweaver/settings.yml`. An empty file says nothing; anything unknown or malformed is refused. */
export function parseRepositorySettings(text: string): RepositorySettingsParse {
  if (text.length > MAX_CHARACTERS) {
    return { ok: false, line: 1, reason: `the file is longer than ${MAX_CHARACTERS} characters` }
  }
  const parsed = parseYaml(text, RepositorySettings)
  if (parsed.ok) return { ok: true, patch: parsed.value }
  if (!parsed.reason.startsWith('direct: ')) return parsed
  return { ...parsed, reason: 'direct: only the operator of the deployment can set it' }
}

/** The patterns of a patch that cannot act, with the reason; an API answers them as field errors. */
export function patternProblems(patch: SandboxSettingsPatch): { index: number; message: string }[] {
  return (patch.destructive_command_patterns ?? []).flatMap((text, index) => {
    const parsed = parseCommandPattern(text)
    return parsed.ok ? [] : [{ index, message: `pattern "${text}" ${parsed.reason}` }]
  })
}
