/** Something of Azure that is switched on once for a subscription, and what fails without it. */
export interface Feature {
  readonly namespace: string
  readonly name: string
  readonly why: string
}

interface Switches {
  readonly observability: { readonly grafana: boolean }
  readonly controller: { readonly install: 'upstream' | 'aksExtension' }
}

/** Resource providers that a platform's resources belong to. Azure has registered those that it needs for itself. */
export function providersOf({ observability, controller }: Switches): readonly string[] {
  return [
    'Microsoft.AlertsManagement',
    'Microsoft.Compute',
    'Microsoft.ContainerRegistry',
    'Microsoft.ContainerService',
    'Microsoft.DBforPostgreSQL',
    'Microsoft.Insights',
    'Microsoft.KeyVault',
    'Microsoft.ManagedIdentity',
    'Microsoft.Monitor',
    'Microsoft.Network',
    'Microsoft.OperationalInsights',
    ...(observability.grafana ? ['Microsoft.Dashboard'] : []),
    ...(controller.install === 'aksExtension' ? ['Microsoft.KubernetesConfiguration'] : []),
  ]
}

export const FEATURES: readonly Feature[] = [
  {
    namespace: 'Microsoft.Compute',
    name: 'EncryptionAtHost',
    why: 'every pool encrypts the disks of its nodes at the host',
  },
]

const monthOf = (date: Date) => `${date.toISOString().slice(0, 7)}-01`

/**
 * The problem with the first day of a new budget. Azure creates none that starts in an earlier month or more than
 * twelve months from now. An existing budget keeps its first day.
 */
export function budgetStartProblem(startDate: string, today: Date): string | undefined {
  const now = monthOf(today)
  const last = monthOf(new Date(Date.UTC(today.getUTCFullYear() + 1, today.getUTCMonth(), 1)))
  if (startDate >= now && startDate <= last) return undefined
  const what = startDate < now ? 'begins in a past month' : 'begins more than twelve months from now'
  return `is "${startDate}", and Azure makes no budget that ${what}: set agentweaver:budget startDate to "${now}"`
}
