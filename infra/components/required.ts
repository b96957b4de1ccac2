import type { Output } from '@pulumi/pulumi'

/**
 * A value that Azure must have returned. An empty string would be accepted: a federated credential without an issuer is
 * created, and no login through it succeeds.
 */
export function required<T>(value: Output<T | undefined>, what: string): Output<T> {
  return value.apply((known) => {
    if (known === undefined || known === null || known === '')
      throw new Error(`the response from Azure has no ${what}`)
    return known
  })
}
