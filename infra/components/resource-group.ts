import { ResourceGroup as AzureResourceGroup } from '@pulumi/azure-native/resources/resourceGroup.js'
import { ComponentResource, type ComponentResourceOptions, type Output } from '@pulumi/pulumi'

export interface ResourceGroupArgs {
  readonly resourceGroupName: string
  readonly location: string
  readonly tags: Readonly<Record<string, string>>
  readonly protect: boolean
}

/** The resource group of a stack. A budget can watch it. */
export class ResourceGroup extends ComponentResource {
  readonly groupName: Output<string>
  readonly groupId: Output<string>

  constructor(name: string, args: ResourceGroupArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:ResourceGroup', name, {}, options)
    const { protect, ...properties } = args
    const group = new AzureResourceGroup(name, properties, { parent: this, protect })
    this.groupName = group.name
    this.groupId = group.id
    this.registerOutputs({})
  }
}
