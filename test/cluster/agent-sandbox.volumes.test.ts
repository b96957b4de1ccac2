import { existsSync, readdirSync } from 'node:fs'
import { expect, inject, it } from 'vitest'
import { volumesFolder } from '../../devcluster/node/open-volumes.ts'
import { describeWith, hasFeature } from './helpers/features.ts'
import { execInPod, realPodSpec } from './helpers/pods.ts'
import { inSeconds } from './helpers/sandbox-objects.ts'
import { sandboxOf, useSandboxSpace } from './helpers/sandbox-space.ts'

const MOUNT = '/workspace'

describeWith(['agent-sandbox', 'real node', 'volumes'], 'a sandbox with its own volume', () => {
  const space = useSandboxSpace('volumes')
  const folders = () => {
    const root = volumesFolder(inject('cluster').folder)
    return existsSync(root) ? readdirSync(root) : []
  }

  async function fillPoolWithVolumes(name: string, replicas: number): Promise<void> {
    const spec = realPodSpec()
    const [container] = spec.containers
    const volumeMounts = [{ name: 'work', mountPath: MOUNT }]
    const podSpec = { ...spec, containers: [{ ...container, volumeMounts }] }
    const resources = { requests: { storage: '10Mi' } }
    const volumeClaimTemplates = [
      { metadata: { name: 'work' }, spec: { accessModes: ['ReadWriteOnce'], resources } },
    ]
    await space.fillPool(name, replicas, { podSpec, spec: { volumeClaimTemplates } })
  }

  it('has a PersistentVolumeClaim named after volume and sandbox, which is deleted with the claim', async () => {
    await fillPoolWithVolumes('owned', 1)
    const claim = await space.bindClaim({ pool: 'owned' })
    const sandbox = sandboxOf(claim)
    const volume = (await space.client.get(space.path('persistentvolumeclaims', `work-${sandbox}`)))['spec']
      .volumeName
    const written = await execInPod(space, sandbox, [
      'sh',
      '-c',
      `echo mark > ${MOUNT}/mark && cat ${MOUNT}/mark`,
    ])
    expect(written).toEqual({ code: 0, output: 'mark' })

    await space.client.delete(space.path('sandboxclaims', claim.metadata.name))

    await space.waitUntilGone('persistentvolumeclaims', `work-${sandbox}`)
    const path = { apiVersion: 'v1', plural: 'persistentvolumes', name: volume }
    await space.eventually('the volume to be gone', async () => !(await space.client.find(path)) || undefined)
    if (hasFeature('audit log')) expect(folders()).not.toContain(volume)
  })

  it('does not see data of an earlier Sandbox of the same pool', async () => {
    await fillPoolWithVolumes('pristine', 1)
    const first = await space.bindClaim({ pool: 'pristine' })
    await execInPod(space, sandboxOf(first), ['sh', '-c', `echo secret > ${MOUNT}/mark`])
    await space.client.delete(space.path('sandboxclaims', first.metadata.name))
    await space.waitForPool('pristine', 1)

    const second = await space.bindClaim({ pool: 'pristine' })

    expect((await execInPod(space, sandboxOf(second), ['ls', '-A', MOUNT])).output).toBe('')
  })

  it('loses its data when the claim is retained', async () => {
    await fillPoolWithVolumes('retained', 1)
    const lifecycle = { shutdownTime: inSeconds(8), shutdownPolicy: 'Retain' }
    const claim = await space.bindClaim({ pool: 'retained', spec: { lifecycle } })

    await space.waitForReason(claim.metadata.name, 'ClaimExpired')

    await space.waitUntilGone('persistentvolumeclaims', `work-${sandboxOf(claim)}`)
  })

  it('keeps its data when its pod is replaced', async () => {
    await fillPoolWithVolumes('replaced', 1)
    const claim = await space.bindClaim({ pool: 'replaced' })
    const sandbox = sandboxOf(claim)
    await execInPod(space, sandbox, ['sh', '-c', `echo kept > ${MOUNT}/mark`])
    const { uid } = (await space.pod(sandbox)).metadata

    await space.client.delete(space.path('pods', sandbox))

    await space.eventually('another pod', async () => {
      const pod = await space.client.find(space.path('pods', sandbox))
      return pod && pod.metadata.uid !== uid && pod['status'].phase === 'Running' ? true : undefined
    })
    await space.waitForReason(sandbox, 'DependenciesReady', 'sandboxes')
    expect((await execInPod(space, sandbox, ['cat', `${MOUNT}/mark`])).output).toBe('kept')
  })
})

describeWith(['agent-sandbox', 'real node'], 'a Sandbox whose command exits', () => {
  const space = useSandboxSpace('ended')

  it.each([
    ['exit 0', 'PodSucceeded'],
    ['exit 3', 'PodFailed'],
  ])('with `%s` gives the reason %s and stays ended', async (script, reason) => {
    const pool = reason.toLowerCase()
    const [container] = realPodSpec().containers
    const { readinessProbe: _, ...rest } = container!
    const containers = [{ ...rest, command: ['sh', '-c', `sleep 1; ${script}`] }]
    await space.fillPool(pool, 0, { podSpec: realPodSpec({ containers, restartPolicy: 'Never' }) })

    const name = await space.postClaim({ pool })

    await space.waitForReason(name, reason)
  })
})

describeWith(['agent-sandbox', 'gvisor'], 'a sandbox under gVisor', () => {
  const space = useSandboxSpace('gvisor')

  it('is claimed warm, and its commands run on gVisor’s kernel', async () => {
    await space.fillPool('deep', 1, { podSpec: realPodSpec({ runtimeClassName: 'gvisor' }) })

    const claim = await space.bindClaim({ pool: 'deep' })

    const { output } = await execInPod(space, sandboxOf(claim), ['cat', '/proc/version'])
    expect(output).toMatch(/gvisor/i)
  })
})
