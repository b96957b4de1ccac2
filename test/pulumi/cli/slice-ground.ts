import { committedConfig } from '../helpers/stack-file.ts'
import type { Workspace } from './workspace.ts'

const GROUP = 'azure-native:resources:ResourceGroup'
const SUBSCRIPTION = String(committedConfig('dev')['agentweaver:subscriptionId'])
const GROUP_ID = `/subscriptions/${SUBSCRIPTION}/resourceGroups/agentweaver-dev`
const KEYS = ['deployment-key', 'ticket-key']

/**
 * Creates the prerequisites of a slice that no stack creates: the bootstrap creates the resource group of previews, and
 * the command that starts a preview writes its keys. Returns the ids, so that the test can remove the objects.
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
