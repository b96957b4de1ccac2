import { hasNamespacedPidMax } from './host.ts'
import { COMMAND_LIMITS, STATUS_FD } from './process/witness.ts'
import { SANDBOX_HOSTNAME } from './rootfs/mounts.ts'

interface SetupTools {
  readonly mount: string
  readonly umount: string
  readonly pivotRoot: string
  /** Words that start what follows them as a command is to be started. */
  readonly commandLauncher: string
  /** Sets the host's name; a base system may lack it, then the command sees that of the host. */
  readonly hostname: string | undefined
  /** Starts the loopback of a network of its own. */
  readonly loopback: string | undefined
}

/**
 * The first process of the namespaces: builds the file system, leaves the host's behind and becomes the witness.
 * `$1` is the skeleton, `$2` the file with the table of all commands' mounts (mount(8) reads no pipe), `$3` the
 * rows of this one, `$4` whether it has a network of its own, the rest are the witness's script and arguments.
 *
 * The command runs in a second user namespace. It has no right over the mounts, which belong to the first, and
 * `max_user_namespaces` keeps it from making a third in which it would be root again.
 */
export function setupScript(tools: SetupTools): string {
  const { mount, umount, pivotRoot, commandLauncher, hostname, loopback } = tools
  const rename = hostname === undefined ? '' : `${hostname} ${SANDBOX_HOSTNAME}`
  // Reserved numbers (300) are not given to the processes of a namespace.
  const pidMax = hasNamespacedPidMax()
    ? `echo ${COMMAND_LIMITS.processes + 300} >/proc/sys/kernel/pid_max`
    : ''
  return `set -eu
exec 8>&2 2>&${STATUS_FD}
skeleton=$1 table=$2 rows=$3 network=$4 witness=$5
shift 5
echo 1 >/proc/sys/user/max_user_namespaces
${pidMax}
${rename}
${loopback === undefined ? '' : `[ -z "$network" ] || ${loopback}`}
${mount} -n --rbind "$skeleton" "$skeleton"
cd "$skeleton"
export LC_ALL=C
${mount} -n -a -T "$table"
if [ -n "$rows" ]; then
  printf %s "$rows" >"$skeleton/tmp/.mounts"
  ${mount} -n -a -T "$skeleton/tmp/.mounts"
  rm "$skeleton/tmp/.mounts"
fi
unset LC_ALL
${mount} -n -o remount,bind,ro,nosuid,nodev "$skeleton"
cd "$skeleton"
${pivotRoot} . .old
${umount} -n -l /.old
cd /
exec ${commandLauncher} /bin/sh -c "$witness" sh "$@" 2>&8 8>&-`
}
