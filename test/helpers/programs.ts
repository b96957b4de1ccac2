import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleServices } from '../../tools/bundle.ts'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/**
 * The bundle of a pod's image, built once for a test file that starts many AgentHosts, because it starts several times
 * as fast as the sources. Only the suites of whole processes start the sources.
 */
export function bundlePrograms() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-programs-'))
  let bundle: Promise<string> | undefined
  const make = () => {
    symlinkSync(MODULES, join(folder, 'node_modules'))
    return bundleServices(join(folder, 'bundle')).then(({ agentHost }) => agentHost)
  }
  return {
    /** The AgentHost program, which includes its runner. */
    agentHost: () => {
      bundle ??= make()
      return bundle
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
