import type { EnvVar } from '../imports/k8s.js'

/** Values keyed by the variables of a contract. `pod` names a field that the kubelet fills in. */
export type EnvValues<Key extends string> = Partial<Record<Key, string | { readonly pod: string }>>

/** Returns the variables sorted by name. */
export function toEnvVars<Key extends string>(values: EnvValues<Key>): EnvVar[] {
  return (Object.entries(values) as [string, string | { readonly pod: string }][])
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) =>
      typeof value === 'string'
        ? { name, value }
        : { name, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: value.pod } } },
    )
}
