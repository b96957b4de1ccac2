import { App, Chart, JsonPatch } from 'cdk8s'
import type { KubeObject } from '../kube-object.ts'

/**
 * One object as cdk8s-plus models it, as plain data, and then completed by patches. A patch on the construct itself
 * would pass through the types of Kubernetes 1.28, which drop every field that they do not know.
 */
export function draft(add: (chart: Chart) => void, patches: readonly JsonPatch[]): KubeObject {
  const chart = new Chart(new App(), 'draft', { disableResourceNameHashes: true })
  add(chart)
  const [object, ...others] = chart.toJson()
  if (object === undefined || others.length > 0) throw new Error('a draft must be exactly one object')
  return JsonPatch.apply(object, ...patches)
}
