import { CustomResource, type CustomResourceOptions } from '@pulumi/pulumi'
import type { KubeManifest } from '../model/controller-release.ts'

/** A Kubernetes object by its kind. The provider's type token has the group `core` for kinds without an API group. */
export class KubeObject extends CustomResource {
  constructor(name: string, object: KubeManifest, options: CustomResourceOptions) {
    const { apiVersion, kind } = object
    const group = apiVersion.includes('/') ? apiVersion : `core/${apiVersion}`
    super(`kubernetes:${group}:${kind}`, name, { ...object }, options)
  }
}
