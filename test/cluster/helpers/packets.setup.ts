import type { TestProject } from 'vitest/node'
import { provideCluster } from './provide-cluster.ts'

let stop: () => Promise<void> = () => Promise.resolve()

/** A cluster whose network agent takes its time with changed labels, as on a managed cluster: what policies must stand. */
export async function setup(project: TestProject): Promise<void> {
  stop = await provideCluster(project, { gvisor: true, cilium: 'default' })
}

export async function teardown(): Promise<void> {
  await stop()
}
