import type { Environment } from './schema.ts'

/** Why the egress proxy needs its second container, which inserts credentials. Undefined if nothing does. */
export const reasonForCredentials = ({
  egress,
  infra,
}: Pick<Environment, 'egress' | 'infra'>): string | undefined => {
  if (egress.credentials) return 'egress.credentials is there'
  return infra.azure
    ? 'infra.azure names a vault, from which this container inserts credentials of owners'
    : undefined
}
