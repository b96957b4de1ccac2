import type { TestProject } from 'vitest/node'
import { provideCluster } from './provide-cluster.ts'

let stop: () => Promise<void> = () => Promise.resolve()

/**
 * A cluster whose network agent applies changed labels with a delay, as on a managed cluster. Policies must hold in
 * this case.
 */
export async function setup(project: TestProject): Promise<void> {
  stop = await provideCluster(project, { gvisor: true, cilium: 'default' })
}

export async function teardown(): Promise<void> {
  await stop()
}
