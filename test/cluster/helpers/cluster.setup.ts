import type { TestProject } from 'vitest/node'
import { provideCluster } from './provide-cluster.ts'

let stop: () => Promise<void> = () => Promise.resolve()

/** One cluster for the suites: with everything, and with a network agent that acts on changed labels at once. */
export async function setup(project: TestProject): Promise<void> {
  stop = await provideCluster(project, { gvisor: true, cilium: 'instant', kwokNodes: 2 })
}

export async function teardown(): Promise<void> {
  await stop()
}
