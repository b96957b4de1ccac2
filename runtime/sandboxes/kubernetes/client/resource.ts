import { CLAIM } from '../../../../contracts/claim.ts'

/** A collection of one namespace. */
export interface Resource {
  readonly apiVersion: string
  readonly plural: string
  readonly namespace: string
}

export const claimsIn = (namespace: string): Resource => ({
  apiVersion: `${CLAIM.group}/${CLAIM.version}`,
  plural: CLAIM.plural,
  namespace,
})

/** Sandboxes are in the controller's core group, which has the same version as the group of the claims. */
export const SANDBOX_GROUP = CLAIM.group.replace(/^extensions\./, '')

export const sandboxesIn = (namespace: string): Resource => ({
  apiVersion: `${SANDBOX_GROUP}/${CLAIM.version}`,
  plural: 'sandboxes',
  namespace,
})

export const podsIn = (namespace: string): Resource => ({ apiVersion: 'v1', plural: 'pods', namespace })

/** Path of a collection, or of one object in it. */
export function pathOf({ apiVersion, plural, namespace }: Resource, name?: string): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
  const collection = `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`
  return name === undefined ? collection : `${collection}/${encodeURIComponent(name)}`
}
