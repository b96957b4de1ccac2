/** Fields of the API's requests, and the option or argument that sets them. */
const TYPED: Readonly<Record<string, string>> = {
  task: 'the task',
  prompt: 'the prompt',
  command: 'the command',
  answer: 'the answer',
  path: 'the folder',
  reason: '--reason',
  scope: '--scope',
  limit: '--limit',
  after: '--after',
  directory: '--cwd',
  timeoutMs: '--timeout',
  stdin: '--stdin',
  workspace: '--workspace',
  agent: '--agent',
  labels: '--label',
  environment: '--env',
  'workspace.path': '--workspace',
  'workspace.mode': '--in-place',
  'agent.kind': '--agent',
  'agent.model': '--model',
  'agent.plan': '--plan',
}

/** The option or argument for a request field. A longer path keeps its remainder as a name within the option. */
export function typedField(field: string): string {
  for (let known = field; known !== ''; known = known.slice(0, Math.max(known.lastIndexOf('.'), 0))) {
    const typed = TYPED[known]
    if (typed !== undefined) return [typed, field.slice(known.length + 1)].filter(Boolean).join(' ')
  }
  return field || 'the request'
}

/** Replaces API field names and values in a service message with the names of the command line. Keys of files, such as `models.openaiCompatible`, stay. */
export const typedWords = (text: string): string =>
  text
    .replaceAll(/\b(?:workspace\.(?:path|mode)|agent\.(?:kind|model|plan))\b/g, typedField)
    .replaceAll(/(?<![.\w])openaiCompatible\b/g, 'openai')
    .replace(/^The cursor `after`/, '--after')

/** Adds a capital letter at the start, unless the text starts with a name, and a full stop at the end. */
export function sentence(text: string): string {
  const begun = /^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text
  return /[.:!?\n)]$/.test(begun) || begun.includes('\n') ? begun : `${begun}.`
}
