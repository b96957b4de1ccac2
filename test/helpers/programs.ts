import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleServices } from '../../tools/bundle.ts'

const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/** Bundles the programs of a pod's image into a temporary folder. */
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
