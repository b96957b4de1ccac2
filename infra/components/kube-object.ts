import { CustomResource, type CustomResourceOptions } from '@pulumi/pulumi'
import type { KubeManifest } from '../model/controller-release.ts'

/** Any object of Kubernetes, by the type that the provider has for it: `core` is what has no group. */
export class KubeObject extends CustomResource {
  constructor(name: string, object: KubeManifest, options: CustomResourceOptions) {
    const { apiVersion, kind } = object
    const group = apiVersion.includes('/') ? apiVersion : `core/${apiVersion}`
    super(`kubernetes:${group}:${kind}`, name, { ...object }, options)
  }
}
