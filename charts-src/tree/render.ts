import { App, Chart } from 'cdk8s'
import { names } from '../../contracts/names.ts'
import type { EgressPolicy } from '../../policies/agent/egress/load.ts'
import { addAdmission } from '../apps/admission.ts'
import { addApi } from '../apps/api.ts'
import { addEgress } from '../apps/egress.ts'
import { addFoundation } from '../apps/foundation.ts'
import { addNetwork } from '../apps/network.ts'
import { addPreview } from '../apps/preview.ts'
import { addSandboxes } from '../apps/sandboxes.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import { PART_OF_LABEL } from '../workloads.ts'
import { type AppName, waveOf } from './wave.ts'

/** In order of application: policies and limits come before the sandboxes that they protect. */
const APPS = {
  foundation: addFoundation,
  network: addNetwork,
  admission: addAdmission,
  sandboxes: addSandboxes,
  api: addApi,
  egress: addEgress,
  preview: addPreview,
} as const satisfies Readonly<Record<AppName, unknown>>

export interface RenderedApp {
  readonly name: AppName
  readonly objects: readonly KubeObject[]
}

const WAVE_ANNOTATION = 'argocd.argoproj.io/sync-wave'

/** Returns all objects of an environment. The only inputs are the environment and the egress policy. */
export function renderEnvironment(environment: Environment, egress: EgressPolicy): RenderedApp[] {
  const app = new App()
  const labels = {
    'app.kubernetes.io/managed-by': 'gitops',
    [PART_OF_LABEL]: names(environment.slice).prefix,
  }
  const charts = Object.entries(APPS).map(([name, add]) => {
    const chart = new Chart(app, name, { labels, disableResourceNameHashes: true })
    add(chart, environment, egress)
    return { name: name as AppName, chart }
  })
  return charts.map(({ name, chart }) => ({
    name,
    objects: (chart.toJson() as KubeObject[]).map((object) => withWave(name, object)).sort(byWaveAndName),
  }))
}

function withWave(app: AppName, object: KubeObject): KubeObject {
  const annotations = { [WAVE_ANNOTATION]: String(waveOf(app, object.kind)), ...object.metadata.annotations }
  const { annotations: _, ...metadata } = object.metadata
  return { ...object, metadata: { annotations, ...metadata } }
}

function byWaveAndName(a: KubeObject, b: KubeObject): number {
  const wave = ({ metadata }: KubeObject) => Number(metadata.annotations?.[WAVE_ANNOTATION])
  const key = ({ kind, metadata }: KubeObject) => `${kind}/${metadata.namespace ?? ''}/${metadata.name}`
  // Compares code units, because a locale would sort names differently on another machine.
  return wave(a) - wave(b) || (key(a) < key(b) ? -1 : 1)
}
