import type { Output } from '@pulumi/pulumi'

/**
 * A value that Azure must have answered. An empty one in its place would pass: a federated credential with no issuer is
 * made and lets nobody in.
 */
export function required<T>(value: Output<T | undefined>, what: string): Output<T> {
  return value.apply((known) => {
    if (known === undefined || known === null || known === '')
      throw new Error(`Azure answered without ${what}`)
    return known
  })
}
