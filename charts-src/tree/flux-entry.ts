import type { Construct } from 'constructs'
import { names } from '../../contracts/names.ts'
import type { Environment } from '../environment/schema.ts'
import { Kustomization } from '../imports/flux-kustomize.js'
import { GitRepository } from '../imports/flux-source.js'
import type { RenderedApp } from './render.ts'
import type { AppName } from './wave.ts'

const NAMESPACE = 'flux-system'

/** Apps that must be ready before an app. */
const AFTER: Readonly<Record<AppName, readonly AppName[]>> = {
  foundation: [],
  network: ['foundation'],
  admission: ['foundation'],
  sandboxes: ['network', 'admission'],
  api: ['sandboxes'],
  // A replica is ready once the API has sent it the destinations.
  egress: ['api'],
  preview: ['api'],
}

/** The Flux entry: one source, and one Kustomization per app that waits for its predecessors. */
export function addFluxEntry(
  scope: Construct,
  { gitops, slice, name: environmentName }: Environment,
  apps: readonly RenderedApp[],
): void {
  const { prefix } = names(slice)
  const base = slice.kind === 'base' ? `${prefix}-${environmentName}` : prefix
  const rendered = new Set(apps.map(({ name }) => name))
  new GitRepository(scope, 'Source', {
    metadata: { name: base, namespace: NAMESPACE },
    spec: { interval: '1m', url: gitops.repository, ref: { branch: gitops.revision } },
  })
  for (const { name } of apps) {
    const before = AFTER[name].filter((other) => rendered.has(other))
    new Kustomization(scope, name, {
      metadata: { name: `${base}-${name}`, namespace: NAMESPACE },
      spec: {
        interval: '10m',
        retryInterval: '1m',
        timeout: '5m',
        prune: true,
        wait: true,
        sourceRef: { kind: 'GitRepository', name: base },
        path: `./gitops/${environmentName}/${name}`,
        dependsOn: before.map((other) => ({ name: `${base}-${other}` })),
      },
    })
  }
}
