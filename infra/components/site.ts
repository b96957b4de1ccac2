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
  /** Whether what holds state is protected from deletion. */
  readonly protect: boolean
  readonly grantGeneration: number
}

/**
 * Option of what Azure deletes together with its parent: the engine then drops it from the state without a call. Not
 * where the parent is protected: `pulumi destroy --skip-preview` keeps the parent, and would drop its children from the
 * state although they stay in Azure. Nor where another stack makes the parent.
 */
export const goesWith = (
  parent: Resource | undefined,
  { protect }: Pick<Site, 'protect'>,
): { deletedWith?: Resource } => (protect || parent === undefined ? {} : { deletedWith: parent })
