import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EgressDestination, EgressGeneration, ModelRoute } from '../../contracts/egress.ts'

/** The servers that a check may connect to through the egress proxy. */
export interface CheckTarget {
  readonly destinations: EgressDestination[]
  /** Its credential is the value that is checked. */
  readonly modelRoute?: ModelRoute
}

/** The network of one check: nothing but its target is reachable, and no other user can open its sockets. */
export interface CheckNetwork {
  readonly generation: EgressGeneration & { readonly socketPath: string }
  readonly podUid: string
  remove(): Promise<void>
}

const LOOPBACK = '127.0.0.1'

/** Puts the sockets of the network in a new temporary folder. In a cluster, no other container mounts it. */
export async function createCheckNetwork({ destinations, modelRoute }: CheckTarget): Promise<CheckNetwork> {
  const folder = await mkdtemp(join(tmpdir(), 'aw-check-'))
  const podUid = randomUUID()
  return {
    generation: {
      ...{ runId: `check_${podUid}`, generation: 0, phase: 'work', destinations },
      socketPath: join(folder, 'socket'),
      pod: { uid: podUid, addresses: [LOOPBACK] },
      ...(modelRoute && { modelRoute: { ...modelRoute, brokerPath: join(folder, 'model') } }),
    },
    podUid,
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
