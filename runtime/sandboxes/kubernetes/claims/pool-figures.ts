import type { Pool } from '../../../../contracts/diagnostics.ts'
import { DEPLOYMENT_LABEL } from '../../../../contracts/labels.ts'
import { SandboxKind } from '../../../../contracts/names.ts'
import type { KubernetesProviderOptions } from '../provider-options.ts'
import type { ClaimWatches } from './claim-watches.ts'
import { isReady, poolOf } from './watch-room.ts'

/** Counts the sandboxes of each pool, and the claims of this deployment, in the caches of the watches. */
export function poolFigures(
  { claims, sandboxes }: Pick<ClaimWatches, 'claims' | 'sandboxes'>,
  { pool, deploymentId }: Pick<KubernetesProviderOptions, 'pool' | 'deploymentId'>,
): Pool[] {
  const own = claims.list().filter(({ metadata }) => metadata.labels?.[DEPLOYMENT_LABEL] === deploymentId)
  return SandboxKind.options.map((kind) => {
    const name = pool(kind)
    const spare = sandboxes.list().filter((sandbox) => poolOf(sandbox) === name)
    const ready = spare.filter(isReady).length
    const claimed = own.filter(({ spec }) => spec.warmPoolRef.name === name).length
    return { kind, name, ready, starting: spare.length - ready, claimed }
  })
}
