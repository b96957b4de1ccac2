import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleServices } from '../../scripts/bundle.ts'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/**
 * The bundle of a pod's image, made once for a test file that starts many AgentHosts: it starts several times as
 * fast as the sources. Those are started by the suites of whole processes.
 */
export function bundlePrograms() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-programs-'))
  let bundle: Promise<string> | undefined
  const make = () => {
    symlinkSync(MODULES, join(folder, 'node_modules'))
    return bundleServices(join(folder, 'bundle')).then(({ agentHost }) => agentHost)
  }
  return {
    /** The AgentHost's program, which brings its runner. */
    agentHost: () => {
      bundle ??= make()
      return bundle
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
