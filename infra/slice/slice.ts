import { Provider } from '@pulumi/azure-native/provider.js'
import { type ComponentResourceOptions, getStack } from '@pulumi/pulumi'
import { names as clusterNames, type Slice } from '../../contracts/names.ts'
import type { InfraOutputs } from '../../contracts/outputs.ts'
import { KubeAccess } from '../components/kube-access.ts'
import type { Site } from '../components/site.ts'
import { SliceNamespaces } from '../components/slice-namespaces.ts'
import { WorkloadIdentities } from '../components/workload-identities.ts'
import type { PlatformConfig, SliceConfig } from '../config-sections.ts'
import { hasPublicName } from '../model/cluster-settings.ts'
import { deploymentSecrets, platformNames, resourceGroupId, sliceNames } from '../model/platform-names.ts'
import { secretGetter, secretWriter } from '../model/roles.ts'
import { sliceTags } from '../model/tags.ts'

type Preview = Extract<Slice, { kind: 'preview' }>

/** The settings and the outputs of the platform that hosts the slice. */
export interface BasePlatform {
  readonly config: PlatformConfig
  readonly outputs: InfraOutputs
}

/**
 * Builds a preview of a branch on a shared cluster: its namespaces and identities, and nothing that could outlive it.
 */
export function buildSlice(config: SliceConfig, base: BasePlatform) {
  const { subscriptionId, tenantId, location, grantGeneration } = base.config
  const platform = platformNames(base.config)
  const names = sliceNames(config.environment, config.slug)
  const slice: Preview = { kind: 'preview', slug: config.slug }
  const tags = sliceTags(config)
  const azure = new Provider('azure', { subscriptionId, tenantId })
  const options: ComponentResourceOptions = { providers: [azure] }
  const site: Site = {
    stack: getStack(),
    subscriptionId,
    resourceGroupName: names.resourceGroup,
    groupId: resourceGroupId(subscriptionId, names.resourceGroup),
    location,
    tags,
    protect: false,
    grantGeneration,
  }
  const { clientIds } = new WorkloadIdentities(
    names.base,
    {
      site,
      slice,
      issuer: base.outputs.cluster.issuer,
      identityName: names.identity,
      grants: sliceGrants(base.config, slice),
    },
    options,
  )
  const { provider } = new KubeAccess(
    `${names.base}-kube`,
    {
      resourceGroupName: platform.resourceGroup,
      clusterName: platform.cluster,
      clusterIdentifier: `${subscriptionId}/${platform.resourceGroup}/${platform.cluster}`,
      forgetUnreachable: true,
      byPublicName: hasPublicName(base.config.apiServer),
    },
    options,
  )
  new SliceNamespaces(names.base, { kube: provider, slice, tags, ceiling: config.ceiling }, options)
  return {
    infra: sliceOutputs(slice, base.outputs, clientIds),
    /** All slices of an environment share the group, so a slice has no resource group to delete. */
    resourceGroups: [],
    namespaces: Object.values(clusterNames(slice).namespaces).filter((name) => name.startsWith('aw-pr-')),
    expires: config.expires,
  }
}

/**
 * Rights on the platform's two vaults. The API reads the keys of its own deployment by name. It writes users' credentials, and
 * the egress proxy or AgentHost reads them: their names derive from the slice's own key, so a slice cannot find, replace or
 * delete one of the base deployment.
 */
function sliceGrants(base: PlatformConfig, slice: Preview) {
  const platform = platformNames(base)
  const group = resourceGroupId(base.subscriptionId, platform.resourceGroup)
  const vaultId = (name: string) => `${group}/providers/Microsoft.KeyVault/vaults/${name}`
  const getter = secretGetter(base.subscriptionId, platform.base)
  const users = { scope: vaultId(platform.userTokenVault), on: platform.userTokenVault }
  return {
    api: [
      ...deploymentSecrets(clusterNames(slice).prefix).map(
        (name) =>
          ({
            role: 'Key Vault Secrets User',
            scope: `${vaultId(platform.controlPlaneVault)}/secrets/${name}`,
            on: `${platform.controlPlaneVault}/${name}`,
            why: 'the API of the preview reads the keys of its own deployment',
          }) as const,
      ),
      {
        ...users,
        role: secretWriter(base.subscriptionId, platform.base),
        why: 'the API of the preview writes and deletes the credentials that users set, and reads none',
      },
    ],
    egressProxy: [
      {
        ...users,
        role: getter,
        why: 'the egress proxy reads the credentials that it inserts, by the names that the API sends',
      },
    ],
    agentHost:
      base.egress.mode === 'fqdn'
        ? [
            {
              ...users,
              role: getter,
              why: 'AgentHost reads the token of the owner of its run, by a name that only the run knows',
            },
          ]
        : undefined,
  }
}

/** The platform's outputs, with the slice's own values in place of the platform's. */
function sliceOutputs<T>(
  slice: Preview,
  outputs: InfraOutputs,
  clientIds: { readonly api: T; readonly agentHost: T | undefined; readonly egressProxy: T },
) {
  const zone = `${slice.slug}.${outputs.dns.zone}`
  if (outputs.azure === undefined) throw new Error('the environment of a slice has no section infra.azure')
  // The identity that administers the database server is not handed to the program of a branch. The slice's identities have no
  // role on the model.
  const { databaseSetup: _setup, modelHost: _model, ...azure } = outputs.azure
  return {
    ...outputs,
    // A slice has a separate database, because a branch's program changes the tables that it finds.
    database: { ...outputs.database, name: clusterNames(slice).prefix },
    dns: { zone, previewZone: `preview.${zone}` },
    azure: {
      ...azure,
      identities: {
        api: { clientId: clientIds.api },
        ...(clientIds.agentHost && { agentHost: { clientId: clientIds.agentHost } }),
        egressProxy: { clientId: clientIds.egressProxy },
      },
    },
  }
}
