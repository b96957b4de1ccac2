import { names } from '../../contracts/names.ts'
import type { Environment } from '../environment/schema.ts'
import type { KubeObject } from '../kube-object.ts'
import type { AppName, RenderedApp } from './render.ts'

const NAMESPACE = 'flux-system'

/** Apps that must be ready before an app. */
const AFTER: Readonly<Record<AppName, readonly AppName[]>> = {
  foundation: [],
  network: ['foundation'],
  admission: ['foundation'],
  sandboxes: ['network', 'admission'],
  api: ['sandboxes'],
  preview: ['api'],
}

/** The Flux entry: one source, and one Kustomization per app that waits for its predecessors. */
export function fluxObjects(environment: Environment, apps: readonly RenderedApp[]): KubeObject[] {
  const { gitops, slice, name: environmentName } = environment
  const { prefix } = names(slice)
  const base = slice.kind === 'base' ? `${prefix}-${environmentName}` : prefix
  const there = new Set(apps.map(({ name }) => name))
  return [
    {
      apiVersion: 'source.toolkit.fluxcd.io/v1',
      kind: 'GitRepository',
      metadata: { name: base, namespace: NAMESPACE },
      spec: { interval: '1m', url: gitops.repository, ref: { branch: gitops.revision } },
    },
    ...apps.map(({ name }) => ({
      apiVersion: 'kustomize.toolkit.fluxcd.io/v1',
      kind: 'Kustomization',
      metadata: { name: `${base}-${name}`, namespace: NAMESPACE },
      spec: {
        interval: '10m',
        retryInterval: '1m',
        timeout: '5m',
        prune: true,
        wait: true,
        sourceRef: { kind: 'GitRepository', name: base },
        path: `./gitops/${environmentName}/${name}`,
        dependsOn: AFTER[name]
          .filter((other) => there.has(other))
          .map((other) => ({ name: `${base}-${other}` })),
      },
    })),
  ]
}
