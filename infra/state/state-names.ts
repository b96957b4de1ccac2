import { globalName } from '../model/naming.ts'
import type { StateConfig } from './state-config.ts'

/** The purpose of a workflow's identity, which decides its rights. */
export type Duty = 'up' | 'plan' | 'preview'

/** Every name that the bootstrap gives. */
export function stateNames({ environment, subscriptionId, names }: StateConfig) {
  const base = `agentweaver-state-${environment}`
  const shared = (what: string, separator: string) =>
    globalName({ max: 24, parts: [what, environment], salt: subscriptionId, separator })
  return {
    resourceGroup: base,
    deployment: base,
    /** Contains only the identities of slices. */
    previews: `agentweaver-${environment}-previews`,
    storage: names.storage ?? shared('awstate', ''),
    vault: names.vault ?? shared('aw-state', '-'),
    container: 'state',
    key: 'state',
    identity: (duty: Duty) => `agentweaver-${environment}-ci-${duty}`,
    /** The environment of GitHub whose jobs may be that identity: its reviewers and branches are the gate. */
    gate: (duty: Duty) =>
      ({ up: environment, plan: `${environment}-plan`, preview: `${environment}-preview` })[duty],
  } as const
}
