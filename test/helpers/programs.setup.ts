import type { TestProject } from 'vitest/node'
import { buildPackage } from './build-package.ts'
import { serveOnce } from './made-once.ts'
import { bundlePrograms } from './programs.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Loopback port on which test files ask for the path of the bundled AgentHost. */
    programsBroker: number
    /** Loopback port on which test files ask for the folder with the programs of the npm package. */
    packageBroker: number
  }
}

/** Bundles the programs of a sandbox, and those of the npm package, once for all test files of a run. */
export async function setup(project: TestProject): Promise<() => void> {
  const programs = bundlePrograms()
  let remove = () => undefined as void
  const host = await serveOnce(programs.agentHost)
  const npm = await serveOnce(async () => {
    const built = await buildPackage()
    remove = built.remove
    return built.folder
  })
  project.provide('programsBroker', host.port)
  project.provide('packageBroker', npm.port)
  return () => {
    host.close()
    npm.close()
    programs.remove()
    remove()
  }
}
