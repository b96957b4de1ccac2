import { spawnSync } from 'node:child_process'
import { closeSync } from 'node:fs'
import { findTool, lookUpTool } from '../host.ts'
import { LAUNCHER_FD } from '../process/command-supervisor.ts'

/** The number of `seccomp` in each system call table; SECCOMP_SET_MODE_FILTER from linux/seccomp.h. */
const SECCOMP_CALL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 317, arm64: 277 }
const SET_MODE_FILTER = 1

/**
 * Builds `struct sock_fprog` (instruction count and pointer) and loads it. The caller has already set
 * no-new-privs.
 */
const perlScript = (call: number): string =>
  [
    `open(my $f, "<&=", ${LAUNCHER_FD}) or die "filter: $!"`,
    'binmode $f; local $/; my $b = <$f>; close $f',
    'my $p = pack("S x![P] P", length($b) / 8, $b)',
    `syscall(${call}, ${SET_MODE_FILTER}, 0, $p) == 0 or die "filter: $!"`,
    'exec { $ARGV[0] } @ARGV or die "exec: $!"',
  ].join('; ')

/** Loads the filter from descriptor 3. Each entry is one shell word. */
export interface FilterLoader {
  /** Options for the setpriv(1) that starts the command. */
  readonly setprivOptions: readonly string[]
  /** A program, started by setpriv(1), that loads the filter and starts the command. */
  readonly program: readonly string[]
}

const BY_SETPRIV: FilterLoader = {
  setprivOptions: ['--seccomp-filter', `/proc/self/fd/${LAUNCHER_FD}`],
  program: [],
}

function byPerl(): FilterLoader[] {
  const [perl, call] = [lookUpTool('perl'), SECCOMP_CALL[process.arch]]
  if (perl === undefined || call === undefined) return []
  return [{ setprivOptions: [], program: [perl, '-e', `'${perlScript(call)}'`] }]
}

/**
 * Finds a program on this machine that can load a system call filter: setpriv(1) of util-linux 2.41 or newer,
 * otherwise perl, which is essential in Debian. Returns the first one that works in a real run, or undefined.
 */
export function findFilterLoader(openFilter: () => number): FilterLoader | undefined {
  return [BY_SETPRIV, ...byPerl()].find((loader) => isProven(loader, openFilter))
}

const PROOF_TIMEOUT_MS = 5_000

function isProven({ setprivOptions, program }: FilterLoader, openFilter: () => number): boolean {
  const start = [findTool('setpriv'), '--no-new-privs', ...setprivOptions, '--', ...program].join(' ')
  const filter = openFilter()
  try {
    const { status } = spawnSync(
      '/bin/sh',
      ['-c', `exec ${start} grep -q '^Seccomp:.2$' /proc/self/status`],
      {
        stdio: ['ignore', 'ignore', 'ignore', filter],
        env: { PATH: '/usr/bin:/bin' },
        timeout: PROOF_TIMEOUT_MS,
      },
    )
    return status === 0
  } finally {
    closeSync(filter)
  }
}
