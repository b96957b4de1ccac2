import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import { HostHealth } from '../../contracts/host-health.ts'
import { CONTAINERS } from '../../contracts/names.ts'
import { describeWith, type Feature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { logsOf } from './helpers/pods.ts'
import { type SandboxPod, startSandboxPod } from './helpers/sandbox-pod.ts'

const RUNTIMES: readonly (readonly [name: string, feature: Feature, form: RegExp])[] = [
  ['runc', 'real node', /system call filter/],
  ['gvisor', 'gvisor', /private network namespace/],
]

describe.each(RUNTIMES)('a sandbox pod under %s', (runtime, feature, form) => {
  describeWith(['real node', feature], 'boots', () => {
    const space = useNamespace(`pod-${runtime}`)
    let pod: SandboxPod

    beforeAll(async () => {
      const runtimeClassName = runtime === 'runc' ? undefined : runtime
      pod = await startSandboxPod(space, 'boot', { runtimeClassName })
    })
    afterAll(() => pod?.client.close())

    it('reaches standby with both runners and reports its isolation', async () => {
      const answer = await fetch(`${pod.baseUrl}/healthz`)

      const health = HostHealth.parse(await answer.json())
      expect(answer.status).toBe(200)
      expect(health).toMatchObject({
        state: 'standby',
        isolation: { backend: 'kubernetes-sandbox-claim', isRealIsolation: true },
      })
      expect(health.isolation?.reason).toMatch(form)
    })

    it('starts without a warning', async () => {
      const host = await logsOf(space, 'boot', CONTAINERS.agentHost)
      const toolbox = await logsOf(space, 'boot', CONTAINERS.toolbox)

      expect(host).toContain('"message":"standby"')
      expect(host + toolbox).not.toContain('Warning')
    })

    it('returns a token for this pod and this audience at /identity', async () => {
      const answer = await fetch(`${pod.baseUrl}/identity`)

      const { token } = (await answer.json()) as { token: string }
      const claims = decodeJwt(token)
      expect([claims.aud].flat()).toEqual([IDENTITY_AUDIENCE])
      expect(claims['kubernetes.io']).toMatchObject({
        namespace: space.name,
        pod: { name: 'boot', uid: pod.uid },
      })
    })
  })
})
