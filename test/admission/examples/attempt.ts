import type { KubeObject, ResourcePath } from '../../../devcluster/client/kube-object.ts'
import { pathOf, urlOf } from '../../../devcluster/client/kube-object.ts'
import type { Actor, AdmissionSpace } from '../space.ts'

/** One dry-run request: the API server processes it up to admission and changes nothing. */
export interface Attempt {
  readonly by: Actor
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly body?: unknown
  readonly contentType?: string
  /** It cannot succeed here for another reason (no kubelet, a name that is taken): to get past the rules counts. */
  readonly endsLater?: boolean
}

/** What shows a rule: a request that passes it, and one that breaks it and nothing else. */
export interface RuleExample {
  readonly passes: Attempt
  readonly fails: Attempt
}

export type Examples = Readonly<Record<string, (space: AdmissionSpace) => RuleExample>>

/** An object in the making, whose fields examples set and remove. */
// biome-ignore lint/suspicious/noExplicitAny: each kind has its own shape
export type Draft = Record<string, any>

const DRY_RUN = '?dryRun=All&fieldValidation=Strict'
const MERGE_PATCH = 'application/merge-patch+json'

export function create(by: Actor, object: KubeObject): Attempt {
  return { by, method: 'POST', url: urlOf({ ...pathOf(object), name: undefined }) + DRY_RUN, body: object }
}

export function put(by: Actor, object: KubeObject): Attempt {
  return { by, method: 'PUT', url: urlOf(pathOf(object)) + DRY_RUN, body: object }
}

export function post(by: Actor, path: ResourcePath, body: unknown): Attempt {
  return { by, method: 'POST', url: urlOf(path) + DRY_RUN, body }
}

export function patch(by: Actor, path: ResourcePath, body: unknown): Attempt {
  return { by, method: 'PATCH', url: urlOf(path) + DRY_RUN, body, contentType: MERGE_PATCH }
}

export function remove(by: Actor, path: ResourcePath): Attempt {
  return { by, method: 'DELETE', url: `${urlOf(path)}?dryRun=All` }
}

export function connect(by: Actor, path: ResourcePath): Attempt {
  return { by, method: 'POST', url: `${urlOf(path)}?command=true`, endsLater: true }
}

/** A copy with some fields changed. */
export function but(object: KubeObject, edit: (draft: Draft) => void): KubeObject {
  const draft: Draft = structuredClone(object)
  edit(draft)
  return draft as KubeObject
}
