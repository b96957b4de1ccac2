/** What of the engine's events people are shown; the rest of each event is left alone. */
export interface EngineEvent {
  readonly resourcePreEvent?: { readonly metadata: Step }
  readonly resOutputsEvent?: { readonly metadata: Step }
  readonly resOpFailedEvent?: { readonly metadata: Step }
  readonly policyEvent?: {
    readonly resourceUrn?: string
    readonly policyName?: string
    readonly message?: string
    readonly enforcementLevel?: string
  }
  readonly diagnosticEvent?: { readonly urn?: string; readonly message?: string; readonly severity?: string }
}
interface Step {
  readonly op: string
  readonly urn: string
  readonly type: string
}

/** Why a run failed, of one event: what the policy pack refused, or what went wrong, with its resource. */
export function findingOf({ policyEvent: policy, diagnosticEvent: diagnostic }: EngineEvent): string[] {
  if (policy?.enforcementLevel === 'mandatory') {
    // The message begins with the policy's description; its last line is the remedy.
    const remedy = policy.message?.trim().split('\n').at(-1) ?? ''
    return [`policy ${policy.policyName}: ${resourceName(policy.resourceUrn)}: ${remedy}`]
  }
  const message = diagnostic?.message?.trim() ?? ''
  if (diagnostic?.severity !== 'error' || /^(?:preview|update|destroy) failed$/.test(message)) return []
  return [
    diagnostic.urn === undefined || diagnostic.urn === ''
      ? message
      : `${resourceName(diagnostic.urn)}: ${message}`,
  ]
}

/** `keyvault:Vault agentweaver-dev-users` of a URN. */
export function resourceName(urn = ''): string {
  const [, , types = '', ...name] = urn.split('::')
  return `${(types.split('$').at(-1) ?? '').replace('azure-native:', '')} ${name.join('::')}`
}
