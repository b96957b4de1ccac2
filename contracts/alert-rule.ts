export interface AlertRule {
  readonly alert: string
  readonly expr: string
  /** The condition must hold this long before the alert fires. */
  readonly forMinutes: number
  readonly severity: 'page' | 'ticket'
  readonly annotations: { readonly summary: string; readonly remedy: string }
}

/** An alert with the address of its section in the runbook. */
export interface Alert extends AlertRule {
  readonly annotations: AlertRule['annotations'] & { readonly runbook_url: string }
}

const RUNBOOK = 'https://github.com/agentweaver/agentweaver-sandbox/blob/main/docs/operations.md'

/** Alerts that differ only in what follows a hyphen share a section. */
export const runbookSection = (alert: string): string => alert.replace(/-.*$/, '')

export const withRunbook = (rule: AlertRule): Alert => ({
  ...rule,
  annotations: {
    ...rule.annotations,
    runbook_url: `${RUNBOOK}#${runbookSection(rule.alert).toLowerCase()}`,
  },
})
