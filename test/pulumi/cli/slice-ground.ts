import { committedConfig } from '../helpers/stack-file.ts'
import type { Workspace } from './workspace.ts'

const GROUP = 'azure-native:resources:ResourceGroup'
const SUBSCRIPTION = String(committedConfig('dev')['agentweaver:subscriptionId'])
const GROUP_ID = `/subscriptions/${SUBSCRIPTION}/resourceGroups/agentweaver-dev`
const KEYS = ['deployment-key', 'ticket-key']

/**
 * What a slice stands on and no stack makes: the bootstrap makes the group of previews, and whoever starts a preview
 * writes its keys. Answers the ids, to be removed from the cloud again.
 */
export function givenForSlice(
  { cloud }: Pick<Workspace, 'cloud'>,
  slug = 'example-50d858',
): readonly string[] {
  const vault = `${GROUP_ID}/providers/Microsoft.KeyVault/vaults/agentweaver-dev-cp`
  const ids = [`${GROUP_ID}-previews`, ...KEYS.map((key) => `${vault}/secrets/aw-pr-${slug}-${key}`)]
  for (const id of ids) cloud.put({ id, type: GROUP, inputs: {}, outputs: { name: 'given' } })
  return ids
}
