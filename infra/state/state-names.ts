import { globalName } from '../model/naming.ts'
import type { StateConfig } from './state-config.ts'

/** The purpose of a workflow's identity, which decides its rights. */
type Duty = 'up' | 'plan' | 'preview'

/** The names that `state.bicep` is given, and those that the command prints. */
export function stateNames({ environment, subscriptionId, names }: StateConfig) {
  const shared = (what: string, separator: string) =>
    globalName({ max: 24, parts: [what, environment], salt: subscriptionId, separator })
  return {
    deployment: `agentweaver-state-${environment}`,
    storage: names.storage ?? shared('awstate', ''),
    vault: names.vault ?? shared('aw-state', '-'),
    identity: (duty: Duty) => `agentweaver-${environment}-ci-${duty}`,
    /** The GitHub environment whose jobs may log in as that identity. */
    gate: (duty: Duty) =>
      ({ up: environment, plan: `${environment}-plan`, preview: `${environment}-preview` })[duty],
  } as const
}
