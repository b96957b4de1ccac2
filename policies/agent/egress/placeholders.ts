/** Names that differ between environments. A destination whose placeholder an environment lacks is left out there. */
export const PLACEHOLDERS = ['user-token-vault', 'login-host', 'model-host'] as const
export type Placeholder = (typeof PLACEHOLDERS)[number]

/** The environment's values of the placeholders. A laptop has none of them. */
export type PlaceholderValues = Readonly<Partial<Record<Placeholder, string>>>

const WRITTEN = /^\$\{([a-z-]+)\}$/

/** Returns the placeholder that a host consists of, or undefined if the host is a name. */
export function placeholderOf(host: string): Placeholder | undefined {
  const name = WRITTEN.exec(host)?.[1]
  return PLACEHOLDERS.find((placeholder) => placeholder === name)
}

export const isWrittenAsPlaceholder = (host: string): boolean => host.includes('$') || /[{}]/.test(host)

/** Returns the reason why a host with a placeholder is not allowed. */
export function placeholderFault(host: string): string | undefined {
  if (placeholderOf(host) !== undefined) return undefined
  const known = PLACEHOLDERS.map((name) => `\${${name}}`).join(', ')
  return `"${host}" is no placeholder; there are ${known}, each alone`
}
