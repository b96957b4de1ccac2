import { azureStandIn } from '../../fakes/pulumi/azure/azure-provider.ts'
import type { Cloud } from '../../fakes/pulumi/cloud.ts'
import { createDeployment, type Deployment } from '../../fakes/pulumi/engine/deployment.ts'
import { openState, type StackState } from '../../fakes/pulumi/engine/state.ts'
import { kubernetesStandIn } from '../../fakes/pulumi/kubernetes-provider.ts'
import { serveProvider } from '../../fakes/pulumi/provider-server.ts'
import { temporaryCloud } from './provider-client.ts'

export const PROJECT = 'agentweaver'

/** Both stand-ins over one cloud, each at its own port. */
export async function someProviders(cloud: Cloud) {
  const azure = await serveProvider({ cloud, standIn: azureStandIn })
  const kubernetes = await serveProvider({ cloud, standIn: kubernetesStandIn })
  return {
    addresses: { 'azure-native': azure.address, kubernetes: kubernetes.address },
    async [Symbol.asyncDispose]() {
      await azure[Symbol.asyncDispose]()
      await kubernetes[Symbol.asyncDispose]()
    },
  }
}

type Program = (engine: Deployment) => Promise<unknown>

/** A stack whose program is a function, run as often as a test likes against the same cloud and state. */
export async function aStack() {
  const cloud = temporaryCloud()
  const state: StackState = openState()
  const providers = await someProviders(cloud)
  const deployment = (preview = false) =>
    createDeployment({
      project: PROJECT,
      stack: 'test',
      state,
      providers: providers.addresses,
      config: {
        'azure-native:location': 'westeurope',
        'azure-native:subscriptionId': '11111111-2222-3333-4444-555555555555',
      },
      preview,
    })
  async function run(act: Program, preview: boolean) {
    await using engine = deployment(preview)
    await act(engine).catch(() => undefined)
    return { changes: engine.changes(), errors: engine.errors, steps: engine.steps }
  }
  const whole = (program: Program) => async (engine: Deployment) => {
    await program(engine)
    await engine.removeLeftovers()
  }
  return {
    cloud,
    state,
    up: (program: Program) => run(whole(program), false),
    preview: (program: Program) => run(whole(program), true),
    refresh: () => run((engine) => engine.refresh(), false),
    destroy: () => run((engine) => engine.destroy(), false),
    async [Symbol.asyncDispose]() {
      await providers[Symbol.asyncDispose]()
      cloud[Symbol.dispose]()
    },
  }
}

export const GROUP = 'azure-native:resources:ResourceGroup'
export const WORKSPACE = 'azure-native:operationalinsights:Workspace'
export const IDENTITY = 'azure-native:managedidentity:UserAssignedIdentity'
export const ASSIGNMENT = 'azure-native:authorization:RoleAssignment'
