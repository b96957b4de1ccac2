import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { createKubeClient } from '../../../devcluster/client/kube-client.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { kubeconfigPath, readState, slotFolder } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { runCommand } from './command.ts'

const ENDPOINT = { apiVersion: 'cilium.io/v2', plural: 'ciliumendpoints', namespace: 'default', name: 'pod' }
const SPEC = '{"spec":{"terminationGracePeriodSeconds":1}}'
/** Cilium waits up to 30 s and 5 s more by default. */
const IDENTITY_MS = 180_000

it.skipIf(whyNoNodes() !== undefined).concurrent.each([
  { timing: 'instant', delays: ['--identity-max-jitter=0s', '--identity-change-grace-period=0s'] },
  // Without the flags Cilium has its own defaults, as on a managed cluster.
  { timing: 'default', delays: [] },
])(
  'gives a pod a new Cilium identity after a label change with timing $timing',
  async ({ timing, delays }) => {
    const { output } = await runCommand(['up', `--cilium=${timing}`, '--keep'])
    const slot = /cluster (\d+) is ready/.exec(output)?.[1] ?? ''
    const folder = slotFolder(Number(slot))
    const client = createKubeClient(readKubeconfig(kubeconfigPath(folder)))
    const kubectl = (...args: string[]) => runCommand(['exec', '--cluster', slot, 'kubectl', ...args])
    try {
      await kubectl(
        'run',
        'pod',
        '--image=localhost/toolbox:1',
        '--image-pull-policy=Never',
        `--overrides=${SPEC}`,
      )
      await kubectl('wait', '--for=condition=Ready', 'pod/pod', '--timeout=180s')
      await kubectl('wait', '--for=jsonpath={.status.state}=ready', 'ciliumendpoint/pod', '--timeout=180s')
      await kubectl('label', 'pod', 'pod', 'late=yes')

      await waitUntil({ what: 'the new identity', timeoutMs: IDENTITY_MS, everyMs: 100 }, async () =>
        JSON.stringify(await client.get(ENDPOINT)).includes('late=yes') ? true : undefined,
      )
      const agent = readState(folder)?.processes.find(({ name }) => name.endsWith('-cilium'))
      const flags = readFileSync(`/proc/${agent?.pid}/cmdline`, 'utf8').split('\0')

      expect(flags).toContain('--identity-allocation-mode=crd')
      expect(flags.filter((flag) => flag.startsWith('--identity-') && flag.endsWith('=0s'))).toEqual(delays)
    } finally {
      await client.close()
      await runCommand(['down', '--cluster', slot])
    }
  },
)
