import { InfraOutputs } from '../../contracts/outputs.ts'

/** What an engine writes in place of a value that is secret, with and without `--show-secrets`. */
const SECRETS = ['[secret]', '4dabf18193072939515e22adb298388d']

export type NewEnvironment =
  | { readonly content: string; readonly isSame: boolean }
  | { readonly problems: readonly string[] }

/**
 * Replaces the section `infra` of an environment's file by a stack's outputs. All other sections keep their formatting,
 * and so does the whole file if nothing changes.
 */
export function withOutputs(file: string, outputs: unknown): NewEnvironment {
  const infra = (outputs as { infra?: unknown } | null)?.infra
  if (infra === undefined) return { problems: ['the stack has no output infra: run pulumi up first'] }
  const text = JSON.stringify(infra)
  if (SECRETS.some((mark) => text.includes(mark))) {
    return { problems: ['infra: contains a secret. An environment file must not contain secrets'] }
  }
  const parsed = InfraOutputs.safeParse(infra)
  if (!parsed.success) {
    return { problems: parsed.error.issues.map(({ path, message }) => `infra.${path.join('.')}: ${message}`) }
  }
  const environment = JSON.parse(file) as Record<string, unknown>
  if (sorted(environment['infra']) === sorted(parsed.data)) return { content: file, isSame: true }
  const replaced = { ...environment, infra: inOrderOf(environment['infra'], parsed.data) }
  return { content: `${JSON.stringify(replaced, null, 2)}\n`, isSame: false }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** JSON with sorted keys, so that equal values have equal texts. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isObject(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}

/** The new value with keys in the order of the old one, so that a diff shows only changed values. */
function inOrderOf(old: unknown, now: unknown): unknown {
  if (!isObject(now)) return now
  const before = isObject(old) ? old : {}
  const keys = [
    ...Object.keys(before).filter((key) => key in now),
    ...Object.keys(now).filter((key) => !(key in before)),
  ]
  return Object.fromEntries(keys.map((key) => [key, inOrderOf(before[key], now[key])]))
}
