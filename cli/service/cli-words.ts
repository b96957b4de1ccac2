/** Fields of the API's requests by what a person typed for them. */
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

/** A field of a request as it is called on the command line; what comes after the known part is a name within it. */
export function typedField(field: string): string {
  for (let known = field; known !== ''; known = known.slice(0, Math.max(known.lastIndexOf('.'), 0))) {
    const typed = TYPED[known]
    if (typed !== undefined) return [typed, field.slice(known.length + 1)].filter(Boolean).join(' ')
  }
  return field || 'the request'
}

/** A sentence of the service that names fields or values of its API, in the words of the command line. */
export const typedWords = (text: string): string =>
  text
    .replaceAll(/\b(?:workspace\.(?:path|mode)|agent\.(?:kind|model|plan))\b/g, typedField)
    .replaceAll('openaiCompatible', 'openai')
    .replace(/^The cursor `after`/, '--after')

/** Begins with a capital letter, unless it begins with a name, and ends with a full stop. */
export function sentence(text: string): string {
  const begun = /^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text
  return /[.:!?\n)]$/.test(begun) || begun.includes('\n') ? begun : `${begun}.`
}
