/**
 * Values that Azure accepts although the enums of the pinned SDK do not have them, by type and path. Each needs a
 * source, because a strict check is what finds a misspelt value.
 */
export const BEYOND_THE_TYPES: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  // The stream of managed Prometheus (Azure Monitor, "Create a data collection rule for managed Prometheus").
  'azure-native:monitor:DataCollectionRule': { 'dataFlows[].streams[]': ['Microsoft-PrometheusMetrics'] },
  // The SDK has one PrincipalType for two services and took the lower-case one of clusters (Citus); the template
  // reference of Microsoft.DBforPostgreSQL/flexibleServers/administrators has these.
  'azure-native:dbforpostgresql:AdministratorsMicrosoftEntra': {
    principalType: ['Group', 'ServicePrincipal', 'User'],
  },
}
