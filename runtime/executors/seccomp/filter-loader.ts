import { spawnSync } from 'node:child_process'
import { closeSync } from 'node:fs'
import { findTool, lookUpTool } from '../host.ts'
import { LAUNCHER_FD } from '../process/witness.ts'

/** The number of `seccomp` in each table, SECCOMP_SET_MODE_FILTER of linux/seccomp.h. */
const SECCOMP_CALL: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 317, arm64: 277 }
const SET_MODE_FILTER = 1

/** `struct sock_fprog` is the number of instructions and a pointer to them. The caller has set no-new-privs. */
const perlScript = (call: number): string =>
  [
    `open(my $f, "<&=", ${LAUNCHER_FD}) or die "filter: $!"`,
    'binmode $f; local $/; my $b = <$f>; close $f',
    'my $p = pack("S x![P] P", length($b) / 8, $b)',
    `syscall(${call}, ${SET_MODE_FILTER}, 0, $p) == 0 or die "filter: $!"`,
    'exec { $ARGV[0] } @ARGV or die "exec: $!"',
  ].join('; ')

/** Loads the filter of descriptor 3. Each entry is a word of a shell. */
export interface FilterLoader {
  /** Options of the setpriv(1) that starts the command. */
  readonly setprivOptions: readonly string[]
  /** A program that setpriv(1) starts, which loads the filter and starts the command. */
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
 * What can load a system call filter here, with nothing to install: setpriv(1) of util-linux 2.41 or newer, else perl,
 * which is essential to Debian. The first that a real run proves; undefined where none does.
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
