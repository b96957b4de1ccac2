import { statSync } from 'node:fs'
import type { ClusterOptions } from '../cluster-options.ts'
import { HarnessError } from '../harness-error.ts'

interface Need {
  /** Any of these paths is sufficient. */
  readonly paths: readonly string[]
  readonly package: string
  readonly when: (options: ClusterOptions) => boolean
}

const CLANG = ['/usr/bin/clang', '/usr/bin/clang-19', '/usr/bin/clang-18', '/usr/bin/clang-17']
const hasNodes = ({ nodes }: ClusterOptions) => nodes > 0

/** System programs that a cluster uses, and the Debian package of each. */
const NEEDS: readonly Need[] = [
  { paths: ['/usr/bin/setpriv', '/bin/setpriv'], package: 'util-linux', when: () => true },
  {
    paths: ['/usr/sbin/runc', '/usr/bin/runc', '/usr/local/sbin/runc', '/usr/local/bin/runc'],
    package: 'runc',
    when: hasNodes,
  },
  { paths: ['/usr/sbin/ip', '/usr/bin/ip', '/sbin/ip', '/bin/ip'], package: 'iproute2', when: hasNodes },
  { paths: ['/usr/sbin/iptables', '/sbin/iptables'], package: 'iptables', when: hasNodes },
  { paths: ['/usr/sbin/nft', '/sbin/nft'], package: 'nftables', when: hasNodes },
  { paths: ['/bin/busybox'], package: 'busybox-static', when: hasNodes },
  { paths: ['/usr/bin/git'], package: 'git', when: hasNodes },
  { paths: ['/usr/bin/python3'], package: 'python3', when: hasNodes },
  { paths: CLANG, package: 'clang-19', when: ({ cilium }) => cilium !== false },
]

function isProgram(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true && (found.mode & 0o111) !== 0
}

/** Debian packages that these options need and that are not installed. */
export function missingPackages(
  options: ClusterOptions,
  exists: (path: string) => boolean = isProgram,
): string[] {
  return NEEDS.filter(({ when, paths }) => when(options) && !paths.some((path) => exists(path))).map(
    (need) => need.package,
  )
}

export function installCommand(packages: readonly string[]): string {
  return `apt-get update && apt-get install -y --no-install-recommends ${packages.join(' ')}`
}

export function requirePackages(options: ClusterOptions): void {
  const missing = missingPackages(options)
  if (missing.length === 0) return
  throw new HarnessError(
    `missing on this machine: ${missing.join(', ')}. Install with: ${installCommand(missing)}`,
  )
}

/** The C compiler that Cilium's agent calls. */
export function clangPath(): string {
  const found = CLANG.find(isProgram)
  if (!found) throw new HarnessError('clang is not installed')
  return found
}
