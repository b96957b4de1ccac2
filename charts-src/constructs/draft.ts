import { App, Chart, JsonPatch } from 'cdk8s'
import type { KubeObject } from '../kube-object.ts'

/**
 * Renders one cdk8s-plus object to plain data and completes it with patches. Patching the construct itself
 * would lose every field that Kubernetes 1.28 does not know.
 */
export function draft(add: (chart: Chart) => void, patches: readonly JsonPatch[]): KubeObject {
  const chart = new Chart(new App(), 'draft', { disableResourceNameHashes: true })
  add(chart)
  const [object, ...others] = chart.toJson()
  if (object === undefined || others.length > 0) throw new Error('a draft must be exactly one object')
  return JsonPatch.apply(object, ...patches)
}
