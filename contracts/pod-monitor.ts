/**
 * Azure's managed Prometheus reads the PodMonitor kind in its own API group. Its pipeline drops samples beyond these
 * limits (template in github.com/Azure/prometheus-collector).
 */
export const AZURE_POD_MONITOR = {
  apiVersion: 'azmonitoring.coreos.com/v1',
  limits: { labelLimit: 63, labelNameLengthLimit: 511, labelValueLengthLimit: 1023 },
} as const

/** Scrape interval. A counter must be exported as zero for one interval before its first increment is visible. */
export const SCRAPE_INTERVAL = '30s'
