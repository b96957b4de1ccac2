import { Budget as AzureBudget } from '@pulumi/azure-native/consumption/budget.js'
import { ComponentResource, type ComponentResourceOptions, type Input } from '@pulumi/pulumi'
import type { PlatformConfig } from '../config-sections.ts'

export interface BudgetArgs {
  readonly scope: Input<string>
  readonly budget: PlatformConfig['budget']
}

/** Percent of the monthly amount: two thresholds for actual cost, one for the forecast. */
const THRESHOLDS = [
  { name: 'spent80', threshold: 80, thresholdType: 'Actual' },
  { name: 'spent100', threshold: 100, thresholdType: 'Actual' },
  { name: 'forecast110', threshold: 110, thresholdType: 'Forecasted' },
] as const

/** Sends an email if the costs grow faster than planned. It stops nothing. */
export class Budget extends ComponentResource {
  constructor(name: string, { scope, budget }: BudgetArgs, options: ComponentResourceOptions) {
    super('agentweaver:infra:Budget', name, {}, options)
    const notifications = THRESHOLDS.map(({ name: key, threshold, thresholdType }) => [
      key,
      { enabled: true, operator: 'GreaterThan', threshold, thresholdType, contactEmails: [...budget.emails] },
    ])
    new AzureBudget(
      name,
      {
        scope,
        budgetName: name,
        amount: budget.amount,
        category: 'Cost',
        timeGrain: 'Monthly',
        timePeriod: { startDate: `${budget.startDate}T00:00:00Z` },
        notifications: Object.fromEntries(notifications),
      },
      { parent: this },
    )
    this.registerOutputs({})
  }
}
