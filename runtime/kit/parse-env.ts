import type { z } from 'zod'
import { SandboxError } from './errors.ts'

export type EnvSource = Readonly<Record<string, string | undefined>>

type EnvChoice = {
  /** All keys with this prefix are parsed, so that a misspelt key is an error. */
  readonly prefix: string
  /** Further keys without the prefix, parsed if they are set. */
  readonly also?: readonly string[]
  /** Keys with the prefix that belong to another program. */
  readonly except?: readonly string[]
}

/** Parses a process's environment. Throws one `invalid_config` error that lists all problems. */
export function parseEnv<T extends z.ZodType>(schema: T, env: EnvSource, choice: EnvChoice): z.infer<T> {
  const isOurs = (key: string) =>
    (key.startsWith(choice.prefix) && !choice.except?.includes(key)) || choice.also?.includes(key)
  const picked = Object.fromEntries(
    Object.entries(env).filter(([key, value]) => isOurs(key) && value !== undefined),
  )
  const parsed = schema.safeParse(picked)
  if (parsed.success) return Object.freeze(parsed.data) as z.infer<T>
  throw new SandboxError('invalid_config', `The configuration has problems:\n${problemsOf(parsed.error)}`)
}

/** Returns one line per problem: the field and the message. */
export function problemsOf(error: z.ZodError): string {
  return fieldProblems(error)
    .map(({ field, message }) => `  ${field || '(all)'}: ${message}`)
    .join('\n')
}

/** Each problem with the dotted path of its field. For an unknown key, the path of that key. */
export function fieldProblems(error: z.ZodError): { field: string; message: string }[] {
  return error.issues.flatMap((issue) => {
    const at = issue.path.join('.')
    if (issue.code !== 'unrecognized_keys') return [{ field: at, message: issue.message }]
    return issue.keys.map((key) => ({
      field: [at, key].filter(Boolean).join('.'),
      message: 'is not a known key',
    }))
  })
}
