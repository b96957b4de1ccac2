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

/** Bundles the programs of a sandbox and of the npm package once for all test files of a run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const programs = bundlePrograms()
  let built: Promise<{ folder: string; remove: () => void }> | undefined
  const host = await serveOnce(programs.agentHost)
  const npm = await serveOnce(async () => {
    built = buildPackage()
    return (await built).folder
  })
  project.provide('programsBroker', host.port)
  project.provide('packageBroker', npm.port)
  return async () => {
    host.close()
    npm.close()
    programs.remove()
    // A failed build has removed its folder.
    await built?.then(
      ({ remove }) => remove(),
      () => undefined,
    )
  }
}
