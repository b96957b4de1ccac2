import { expect } from 'vitest'
import type { Exported, Workspace } from './workspace.ts'

export const GROUP = 'azure-native:resources:ResourceGroup'
export const POOL = 'azure-native:containerservice:AgentPool'
export const CLUSTER = 'azure-native:containerservice:ManagedCluster'

const ids = (resources: readonly Exported[]) =>
  resources
    .filter(({ type }) => type.startsWith('azure-native:'))
    .map(({ id }) => id?.toLowerCase())
    .toSorted()

export const idsInCloud = ({ cloud }: Pick<Workspace, 'cloud'>): string[] =>
  cloud
    .list()
    .filter(({ type }) => type.startsWith('azure-native:'))
    .map(({ id }) => id.toLowerCase())
    .toSorted()

/** Expects the state of one stack to list exactly the objects in the cloud. */
export async function expectAgreement(space: Workspace, stack: string): Promise<void> {
  const made = await space.made(stack)
  expect(ids(made)).toEqual(idsInCloud(space))
  expect(made.length).toBe(space.cloud.list().length)
}

export const nameOf = (urn = ''): string => urn.split('::').at(-1) ?? urn
