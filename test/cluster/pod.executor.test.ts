import { afterAll, beforeAll, describe } from 'vitest'
import { HostHealth } from '../../contracts/host-health.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { SandboxPodParts } from '../../devcluster/client/sandbox-pod-spec.ts'
import { testExecutor } from '../conformance/executor.ts'
import { hasFeature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPodExecutor } from './helpers/pod-executor.ts'
import { podSite } from './helpers/pod-site.ts'
import { type SandboxPod, startSandboxPod } from './helpers/sandbox-pod.ts'

const FORMS: readonly (readonly [name: string, parts: SandboxPodParts, ownNetwork: boolean])[] = [
  ['gvisor', { runtimeClassName: 'gvisor' }, true],
  ['runc', {}, false],
  // Simulates a virtual machine, whose separate kernel permits namespaces.
  ['runc that permits namespaces', { withoutSeccomp: true, offline: 'namespace' }, true],
]

describe.each(FORMS)('commands in a sandbox pod under %s', (name, parts, ownNetwork) => {
  const isThere = hasFeature(parts.runtimeClassName === 'gvisor' ? 'gvisor' : 'real node')
  const space = useNamespace('pod-exec')
  let pod: SandboxPod

  beforeAll(async () => {
    if (!isThere) return
    pod = await startSandboxPod(space, 'exec', parts)
    const settings = SandboxSettings.parse({ network_enabled: true })
    await pod.configure({ governance: { version: '1', settings } })
  })
  afterAll(() => pod?.client.close())

  testExecutor({
    name: 'kubernetes-sandbox-claim',
    create: async () => {
      const health = HostHealth.parse(await (await fetch(`${pod.baseUrl}/healthz`)).json())
      if (!health.isolation) throw new Error(`the pod under ${name} has no runners`)
      return createPodExecutor(pod.client, health.isolation)
    },
    supports: {
      isolation: true,
      ownRoot: false,
      ownNetwork,
      enforcesEgress: true,
      syscallFilter: true,
      endsForeignCalls: parts.runtimeClassName !== 'gvisor',
      processLimit: false,
      rawOutput: false,
    },
    site: () => podSite(space, () => pod.name),
    missing: isThere ? undefined : 'the cluster has no such runtime',
  })
})
