import { names as clusterNames } from '../../contracts/names.ts'
import type { Cluster } from '../components/cluster.ts'
import { DATABASE_NAME, Database } from '../components/database.ts'
import { Dns } from '../components/dns.ts'
import { WorkloadIdentities } from '../components/workload-identities.ts'
import { WorkloadIdentity } from '../components/workload-identity.ts'
import type { PlatformConfig } from '../config-sections.ts'
import { infraOutputs } from '../model/outputs.ts'
import type { PlatformNames } from '../model/platform-names.ts'
import { secretGetter, secretWriter } from '../model/roles.ts'
import type { Ground } from './ground.ts'

/** Services of the control plane and the sandboxes, with their grants. Returns the outputs that charts read. */
export function raiseServices(
  config: PlatformConfig,
  names: PlatformNames,
  ground: Ground & { readonly cluster: Cluster },
) {
  const { site, network, options, cluster } = ground
  const { issuer } = cluster
  const setupName = names.identity('database-setup')
  const setup = databaseSetup(setupName, ground)
  const database = new Database(
    names.base,
    {
      site,
      serverName: names.database,
      tenantId: config.tenantId,
      database: config.database,
      virtualNetworkId: network.virtualNetworkId,
      subnetId: network.subnets.database,
      setup: { name: setupName, principalId: setup.principalId },
    },
    options,
  )
  new Dns(`${names.base}-dns`, { site, dns: config.dns, issuer, identity: names.identity }, options)
  const { clientIds, apiPrincipalId } = new WorkloadIdentities(
    names.base,
    {
      site,
      slice: { kind: 'base' },
      issuer,
      identityName: names.identity,
      grants: grants(config, names, ground),
    },
    options,
  )
  return infraOutputs({
    config,
    names,
    zone: config.dns.zone,
    databaseName: DATABASE_NAME,
    facts: {
      issuer,
      databaseHost: database.host,
      clientIds,
      databaseSetup: { clientId: setup.clientId, role: setupName, apiObjectId: apiPrincipalId },
    },
  })
}

/**
 * An administrator of the database. Only the Job that creates the API's role may use this identity. It has no right in
 * Azure.
 */
function databaseSetup(identityName: string, { site, options, cluster }: Ground & { cluster: Cluster }) {
  const { namespaces, serviceAccounts } = clusterNames({ kind: 'base' })
  const account = { namespace: namespaces.controlPlane, name: serviceAccounts.databaseSetup }
  return new WorkloadIdentity(
    identityName,
    { site, identityName, issuer: cluster.issuer, serviceAccounts: [account], grants: [] },
    options,
  )
}

function grants(config: PlatformConfig, names: PlatformNames, { vaults }: Ground) {
  const { model } = config
  return {
    api: [
      {
        role: 'Key Vault Secrets User',
        scope: vaults.controlPlane.vaultId,
        after: vaults.controlPlane.resource,
        on: names.controlPlaneVault,
        why: 'the API reads the keys of its deployment',
      },
      {
        role: secretWriter(config.subscriptionId, names.base),
        scope: vaults.userTokens.vaultId,
        after: vaults.userTokens.resource,
        on: names.userTokenVault,
        why: 'the API writes and deletes the credentials that users set, and reads none',
      },
    ],
    egressProxy: [
      {
        role: secretGetter(config.subscriptionId, names.base),
        scope: vaults.userTokens.vaultId,
        after: vaults.userTokens.resource,
        on: names.userTokenVault,
        why: 'the egress proxy reads the credentials that it inserts, by the names that the API sends',
      },
      ...(model
        ? [
            {
              role: 'Cognitive Services OpenAI User',
              scope: model.resourceId,
              on: model.host,
              why: 'the egress proxy calls the models of this environment for agents',
            } as const,
          ]
        : []),
    ],
    // In mode `proxy`, the egress proxy inserts the tokens of owners.
    agentHost:
      config.egress.mode === 'fqdn'
        ? [
            {
              role: secretGetter(config.subscriptionId, names.base),
              scope: vaults.userTokens.vaultId,
              after: vaults.userTokens.resource,
              on: names.userTokenVault,
              why: 'AgentHost reads the token of the owner of its run, by a name that only the run knows',
            },
          ]
        : undefined,
  } as const
}
