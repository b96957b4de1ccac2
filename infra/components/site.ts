import type { Input } from '@pulumi/pulumi'

/** Where a component's resources go and what they are marked with. */
export interface Site {
  readonly stack: string
  readonly subscriptionId: string
  readonly resourceGroupName: Input<string>
  /** Id of that group, made of names. */
  readonly groupId: string
  readonly location: string
  readonly tags: Readonly<Record<string, string>>
  /** Whether what holds state is protected from deletion. */
  readonly protect: boolean
  readonly grantGeneration: number
}
