import { App, Chart } from 'cdk8s'
import type { KubeObject } from '../kube-object.ts'

/** Renders the objects that `add` creates, without the labels that a tree adds. */
export function chartObjects(add: (chart: Chart) => void): KubeObject[] {
  const chart = new Chart(new App(), 'objects', { disableResourceNameHashes: true })
  add(chart)
  return chart.toJson() as KubeObject[]
}
