/**
 * How Azure's managed Prometheus is told what to collect: the operator's PodMonitor in a group of its own, with the
 * limits of its pipeline, beyond which samples are dropped (template in github.com/Azure/prometheus-collector).
 */
export const AZURE_POD_MONITOR = {
  apiVersion: 'azmonitoring.coreos.com/v1',
  limits: { labelLimit: 63, labelNameLengthLimit: 511, labelValueLengthLimit: 1023 },
} as const

/** How often figures are collected: a counter has to stand at zero for as long before it first moves. */
export const SCRAPE_INTERVAL = '30s'
