import type { TestProject } from 'vitest/node'
import { serveOnce } from './made-once.ts'
import { bundlePrograms } from './programs.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Loopback port on which test files ask for the path of the bundled AgentHost. */
    programsBroker: number
  }
}

/** Bundles the programs of a sandbox once for all test files of a run. */
export async function setup(project: TestProject): Promise<() => void> {
  const programs = bundlePrograms()
  const { port, close } = await serveOnce(programs.agentHost)
  project.provide('programsBroker', port)
  return () => {
    close()
    programs.remove()
  }
}
