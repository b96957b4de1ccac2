import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'

/** An object, and where it stands below `gitops/<environment>`. */
export interface Placed {
  readonly path: string
  readonly object: KubeObject
}

/** What checks look at: everything that is rendered from one environment. */
export interface CheckedTree {
  readonly environment: Environment
  readonly objects: readonly Placed[]
}

/** A fault of a tree: where it shows, what it is, and which file of ours to open. */
export interface Finding {
  readonly path: string
  readonly message: string
  readonly open: string
}

export type Check = (tree: CheckedTree) => readonly Finding[]

export const environmentFile = ({ environment }: CheckedTree) => `environments/${environment.name}.json`

export const describeFinding = (environment: string, { path, message, open }: Finding): string =>
  `gitops/${environment}/${path}: ${message}; open ${open}`
