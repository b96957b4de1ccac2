import { describe, expect, it } from 'vitest'
import { createKubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { kubeconfigPath, slotFolder } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { runCommand } from './command.ts'

const ENDPOINT = { apiVersion: 'cilium.io/v2', plural: 'ciliumendpoints', namespace: 'default', name: 'pod' }
const SPEC = '{"spec":{"terminationGracePeriodSeconds":1}}'

describe.skipIf(whyNoNodes() !== undefined)('Cilium’s timing of changed labels', () => {
  /** Milliseconds from a pod's new label to the identity that has it. */
  async function measure(timing: string): Promise<number> {
    const { output } = await runCommand(['up', `--cilium=${timing}`, '--keep'])
    const slot = /cluster (\d+) is ready/.exec(output)?.[1] ?? ''
    const client = createKubeClient(readKubeconfig(kubeconfigPath(slotFolder(Number(slot)))))
    const kubectl = (...args: string[]) => runCommand(['exec', '--cluster', slot, 'kubectl', ...args])
    try {
      await kubectl(
        'run',
        'pod',
        '--image=localhost/toolbox:1',
        '--image-pull-policy=Never',
        `--overrides=${SPEC}`,
      )
      await kubectl('wait', '--for=condition=Ready', 'pod/pod', '--timeout=60s')
      await kubectl('wait', '--for=jsonpath={.status.state}=ready', 'ciliumendpoint/pod', '--timeout=60s')
      await kubectl('label', 'pod', 'pod', 'late=yes')
      const start = Date.now()
      await waitUntil({ what: 'the new identity', timeoutMs: 60_000, everyMs: 20 }, async () =>
        JSON.stringify(await client.get(ENDPOINT)).includes('late=yes'),
      )
      return Date.now() - start
    } finally {
      await client.close()
      await runCommand(['down', '--cluster', slot])
    }
  }

  // Two clusters at once: most of it is waiting for the later one.
  it.concurrent('is immediate if tests request it', async () => {
    expect(await measure('instant')).toBeLessThan(4_900)
  })

  it.concurrent('is late by default, as on a managed cluster', async () => {
    // A grace period of 5 s follows a random wait.
    expect(await measure('default')).toBeGreaterThan(4_000)
  })
})
