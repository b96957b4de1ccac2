import { hasNamespacedPidMax } from './host.ts'
import { COMMAND_LIMITS, STATUS_FD } from './process/command-supervisor.ts'
import { SANDBOX_HOSTNAME } from './rootfs/mounts.ts'

interface SetupTools {
  readonly mount: string
  readonly umount: string
  readonly pivotRoot: string
  /** Command line prefix that starts a command with the required privileges and filter. */
  readonly commandLauncher: string
  /** The `hostname` program. If a base system lacks it, commands see the host's name. */
  readonly hostname: string | undefined
  /** Brings up the loopback interface. */
  readonly loopback: string | undefined
}

/**
 * The first process in the namespaces. It builds the file system, detaches the host's and becomes the command
 * supervisor. `$1` is the skeleton, `$2` the file with the mounts of all commands (mount(8) cannot read a
 * pipe) and `$3` the extra mounts of this command. The other arguments are the supervisor's script and its arguments. The command runs in a second user namespace: it has no rights
 * over the mounts, which belong to the first, and `max_user_namespaces` keeps it from creating a third in which
 * it would be root again.
 */
export function setupScript(tools: SetupTools): string {
  const { mount, umount, pivotRoot, commandLauncher, hostname, loopback } = tools
  const rename = hostname === undefined ? '' : `${hostname} ${SANDBOX_HOSTNAME}`
  // The kernel reserves the first 300 process ids of a namespace.
  const pidMax = hasNamespacedPidMax()
    ? `echo ${COMMAND_LIMITS.processes + 300} >/proc/sys/kernel/pid_max`
    : ''
  return `set -eu
exec 8>&2 2>&${STATUS_FD}
skeleton=$1 table=$2 rows=$3 supervisor=$4
shift 4
echo 1 >/proc/sys/user/max_user_namespaces
${pidMax}
${rename}
${loopback ?? ''}
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
exec ${commandLauncher} /bin/sh -c "$supervisor" sh "$@" 2>&8 8>&-`
}
