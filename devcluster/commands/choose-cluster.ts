import { HarnessError } from '../harness-error.ts'
import { isAlive } from '../host/process-identity.ts'
import { type ClusterState, listSlots, readState, slotFolder } from '../host/run-folder.ts'

export interface FoundCluster {
  readonly slot: number
  readonly folder: string
  readonly state: ClusterState
  /** False if its owner process has ended and the cluster has not been cleaned up yet. */
  readonly alive: boolean
}

export function findClusters(): FoundCluster[] {
  return listSlots().flatMap((slot) => {
    const folder = slotFolder(slot)
    const state = readState(folder)
    return state ? [{ slot, folder, state, alive: isAlive(state.owner) }] : []
  })
}

/** The cluster with this number. Without a number, the only cluster. */
export function chooseCluster(wanted: number | undefined): FoundCluster {
  const clusters = findClusters().filter(({ alive }) => alive)
  const numbers = clusters.map(({ slot }) => slot).join(', ')
  const [first] = wanted === undefined ? clusters : clusters.filter(({ slot }) => slot === wanted)
  if (!first && wanted !== undefined)
    throw new HarnessError(`there is no cluster ${wanted}; running: ${numbers || 'none'}`)
  if (!first) throw new HarnessError('no cluster is running; start one with `npm run cluster -- up --keep`')
  if (wanted === undefined && clusters.length > 1) {
    throw new HarnessError(`several clusters are running (${numbers}); choose one with --cluster`)
  }
  return first
}
