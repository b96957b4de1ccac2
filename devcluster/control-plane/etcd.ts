import { join } from 'node:path'
import { request } from 'undici'
import type { ClusterContext } from '../cluster-context.ts'
import { withFreePorts } from '../host/free-ports.ts'
import { waitUntil } from '../host/wait-until.ts'

const READY_MS = 20_000

/** Starts etcd on loopback ports and returns the client URL. */
export function startEtcd({ folder, tools, run }: ClusterContext): Promise<string> {
  return withFreePorts(2, async ([clientPort, peerPort]) => {
    const [client, peer] = [`http://127.0.0.1:${clientPort}`, `http://127.0.0.1:${peerPort}`]
    const daemon = run({
      name: 'etcd',
      health: `${client}/health`,
      argv: [
        tools.bin('kubernetes', 'etcd'),
        ...['--data-dir', join(folder, 'etcd')],
        ...['--listen-client-urls', client, '--advertise-client-urls', client],
        ...[
          '--listen-peer-urls',
          peer,
          '--initial-advertise-peer-urls',
          peer,
          '--initial-cluster',
          `default=${peer}`,
        ],
        // The data is needed only while the processes live, so a crash of the machine loses nothing.
        ...['--unsafe-no-fsync', '--log-level', 'warn'],
      ],
    })
    await waitUntil({ what: 'etcd', timeoutMs: READY_MS, needs: [daemon] }, async () => {
      const { statusCode, body } = await request(`${client}/health`)
      await body.dump()
      return statusCode === 200 ? true : undefined
    })
    return client
  })
}
