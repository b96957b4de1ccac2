import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'

/** An object with its path below `gitops/<environment>`. */
export interface Placed {
  readonly path: string
  readonly object: KubeObject
}

/** The input of a check: everything that one environment renders. */
export interface CheckedTree {
  readonly environment: Environment
  readonly objects: readonly Placed[]
}

/** A fault: the path of the object, the message, and the source file to open. */
export interface Finding {
  readonly path: string
  readonly message: string
  readonly open: string
}

export type Check = (tree: CheckedTree) => readonly Finding[]

export const environmentFile = ({ environment }: CheckedTree) => `environments/${environment.name}.json`

export const describeFinding = (environment: string, { path, message, open }: Finding): string =>
  `gitops/${environment}/${path}: ${message}; open ${open}`
