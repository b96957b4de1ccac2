/** The fields that all Kubernetes objects share. */
export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: ObjectMeta
  // Fields of kinds without a declared type can be read without a cast. The API server validates writes.
  // biome-ignore lint/suspicious/noExplicitAny: each kind has its own shape
  readonly [field: string]: any
}

export interface ObjectMeta {
  readonly name: string
  readonly namespace?: string
  readonly generateName?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly ownerReferences?: readonly OwnerReference[]
  readonly finalizers?: readonly string[]
}

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
}

/** A collection of resources, or one object in it if `name` is set. */
export interface ResourcePath {
  readonly apiVersion: string
  readonly plural: string
  readonly namespace?: string | undefined
  readonly name?: string | undefined
  readonly subresource?: string | undefined
}

export function urlOf({ apiVersion, plural, namespace, name, subresource }: ResourcePath): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const parts = [namespace && `namespaces/${namespace}`, plural, name, subresource]
  return [root, ...parts.filter((part) => part !== undefined && part !== '')].join('/')
}

/** The collection of an object. An object without a namespace is treated as cluster-scoped. */
export function pathOf({ apiVersion, kind, metadata }: KubeObject): ResourcePath {
  return { apiVersion, plural: pluralOf(kind), namespace: metadata.namespace, name: metadata.name }
}

function pluralOf(kind: string): string {
  const lower = kind.toLowerCase()
  if (/[^aeiou]y$/.test(lower)) return `${lower.slice(0, -1)}ies`
  return /(s|x|ch)$/.test(lower) ? `${lower}es` : `${lower}s`
}
