import type { Input, Resource } from '@pulumi/pulumi'

/** Location, resource group and tags of a component's resources. */
export interface Site {
  readonly stack: string
  readonly subscriptionId: string
  readonly resourceGroupName: Input<string>
  /** Id of that group, built from names. */
  readonly groupId: string
  readonly location: string
  readonly tags: Readonly<Record<string, string>>
  /** Whether resources that hold state are protected from deletion. */
  readonly protect: boolean
  readonly grantGeneration: number
}

/**
 * Option for a resource that Azure deletes together with its parent: the engine then drops it from the state without a
 * call. Do not use it if the parent is protected, because `pulumi destroy --skip-preview` keeps the parent and would
 * drop its children from the state although they stay in Azure. Do not use it either if another stack creates the
 * parent.
 */
export const goesWith = (
  parent: Resource | undefined,
  { protect }: Pick<Site, 'protect'>,
): { deletedWith?: Resource } => (protect || parent === undefined ? {} : { deletedWith: parent })
