import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HarnessError } from '../harness-error.ts'
import { moduleFolder } from './cache-key.ts'
import { runGo } from './go-command.ts'

const SHIM_SOURCE = 'vendor/gvisor.dev/gvisor/pkg/shim/v1/manager.go'
const SCORE = /(oomScoreMax\s*=\s*).*/

export interface ShimBuild {
  readonly goCache: string
  readonly scratch: string
  readonly bin: string
}

/**
 * Builds gVisor's containerd shim with an out-of-memory score that any root user may set. The upstream shim sets a
 * negative score and fails without CAP_SYS_RESOURCE, which containers and small virtual machines lack.
 */
export async function buildGvisorShim({ goCache, scratch, bin }: ShimBuild): Promise<void> {
  const copy = join(scratch, 'gvisor-vendored')
  cpSync(moduleFolder('gvisor'), copy, { recursive: true })
  await runGo({ cwd: copy, args: ['mod', 'vendor'], goCache, scratch })
  const source = join(copy, SHIM_SOURCE)
  const text = readFileSync(source, 'utf8')
  if (!SCORE.test(text)) throw new HarnessError(`gVisor's shim no longer sets oomScoreMax in ${SHIM_SOURCE}`)
  writeFileSync(source, text.replace(SCORE, '$10'))
  const target = join(bin, 'containerd-shim-runsc-v1')
  await runGo({
    cwd: copy,
    args: ['build', '-mod=vendor', '-ldflags', '-s -w', '-o', target, 'gvisor.dev/gvisor/shim'],
    goCache,
    scratch,
  })
}
