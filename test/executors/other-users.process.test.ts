import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import type { ExecResult } from '../../contracts/exec.ts'
import { isRoot } from '../../runtime/executors/host.ts'
import type { Rung } from '../../runtime/executors/select.ts'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'
import { FIXTURES } from '../conformance/executor-cases/subject.ts'
import { canAlterMachine, FORBID_NAMESPACES, onMachineWhere } from '../helpers/altered-machine.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'

const run = promisify(execFile)
const NOBODY = 65_534
const NEWER_SETPRIV = join(FIXTURES, 'setpriv-with-filter.pl')

type Report = { ladder: Rung[]; answers: Record<string, (ExecResult & { stdout: string })[]> }

const reporter = (workspace: string, commands: readonly string[]) => [
  process.execPath,
  join(FIXTURES, 'report.ts'),
  workspace,
  ...commands,
]

async function report(launcher: readonly string[], workspace: string, commands: readonly string[] = []) {
  const [file = '', ...args] = [...launcher, ...reporter(workspace, commands)]
  const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', TMPDIR: workspace }
  const { stdout } = await run(file, args, { env })
  return JSON.parse(stdout) as Report
}

const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--']

async function aWorkspaceOf(uid: number): Promise<string> {
  const workspace = await temporaryFolder()
  await mkdir(join(workspace, 'denied'))
  await writeFile(join(workspace, 'denied/file'), 'secret')
  for (const path of ['denied/file', 'denied', '.']) await chown(join(workspace, path), uid, uid)
  await chmod(workspace, 0o700)
  return workspace
}

/** Whether another user can run this checkout, which may lie in a private home folder. */
const isReadableByAll =
  isRoot() &&
  (await run('setpriv', [
    ...AS_NOBODY.slice(1),
    process.execPath,
    '-e',
    `require('fs').readdirSync('${FIXTURES}')`,
  ]).then(
    () => true,
    () => false,
  ))

const why = isRoot() ? 'this checkout is not readable for all' : 'the other suites run as such a user'
const unprivileged = isReadableByAll ? 'an unprivileged user' : `an unprivileged user (skipped: ${why})`

describe.skipIf(!isReadableByAll)(unprivileged, () => {
  it.each(ISOLATING_BACKENDS.map(({ name }) => name))('gets the same isolation from %s', async (name) => {
    const workspace = await aWorkspaceOf(NOBODY)

    const { ladder, answers } = await report(AS_NOBODY, workspace, [
      'echo hello > written && cat written && id -u',
      'cat denied/file',
      'grep -E "^(CapEff|NoNewPrivs)" /proc/self/status; ls /proc | grep -c "^[0-9]"',
      "sh -c 'i=0; while [ $i -lt 3000 ]; do sleep 3000 >/dev/null & i=$((i+1)); echo $i; done' | tail -1",
      'echo 9 > /proc/sys/kernel/pid_max; unshare --user true; umount /tmp; cat /etc/shadow',
    ])

    await rm(workspace, { recursive: true })
    const rung = ladder.find((one) => one.name === name)
    expect(rung?.detection).toMatchObject({ ok: true })
    const [write, denied, status, processes, attacks] = answers[name] ?? []
    expect(write?.stdout).toBe('hello\n1000\n')
    expect(denied).toMatchObject({ stdout: '', exitCode: 1 })
    expect(status?.stdout).toMatch(/^CapEff:\t0+\nNoNewPrivs:\t1\n[1-9]\n$/)
    expect(Number(processes?.stdout)).toBeGreaterThan(100)
    expect(Number(processes?.stdout)).toBeLessThanOrEqual(1_400)
    expect(attacks).toMatchObject({ stdout: '', exitCode: 1 })
  })
})

const hiding = canAlterMachine ? 'a machine' : 'a machine (skipped: this one has no user namespaces)'

describe.skipIf(!canAlterMachine)(hiding, () => {
  it('without a working bubblewrap gets namespaces, with the reason', async () => {
    const workspace = await temporaryFolder()
    const hide =
      'for f in /usr/bin/bwrap /usr/local/bin/bwrap; do [ ! -e $f ] || mount --bind /dev/null $f; done'

    const { ladder, answers } = await report(onMachineWhere(hide), workspace, ['echo ran'])

    await rm(workspace, { recursive: true })
    const [bwrap, namespaces] = ladder
    expect(bwrap).toMatchObject({ name: 'linux-bwrap', isChosen: false, detection: { ok: false } })
    expect(namespaces).toMatchObject({ name: 'linux-namespaces', isChosen: true })
    expect(answers['linux-namespaces']?.[0]?.stdout).toBe('ran\n')
  })

  it('without a filter loader for namespaces gets a warning, and commands run unfiltered', async () => {
    const workspace = await temporaryFolder()
    const hide =
      'for f in /usr/bin/perl /usr/local/bin/perl; do [ ! -e $f ] || mount --bind /dev/null $f; done'
    const command = 'touch x && chmod 4755 x 2>/dev/null && echo set || echo refused'

    const { ladder, answers } = await report(onMachineWhere(hide), workspace, [command])

    await rm(workspace, { recursive: true })
    const detection = ladder[1]?.detection
    const warnings = JSON.stringify(detection?.ok && detection.warnings)
    // A newer setpriv(1) loads the filter without perl.
    const isWithout = warnings.includes('nothing here can load the system call filter')
    expect(detection).toMatchObject({ ok: true })
    expect(answers['linux-namespaces']?.[0]?.stdout).toBe(isWithout ? 'set\n' : 'refused\n')
  })

  it.skipIf(process.arch !== 'x64' || !existsSync('/usr/bin/perl'))(
    "cannot overwrite the filter's file from a command if setpriv(1) loads it",
    async () => {
      const workspace = await temporaryFolder()
      const stand = 'mount --bind /usr/bin/setpriv /usr/bin/chrt && mount --bind'
      // An instruction that allows every call, written over the filter of later commands.
      const overwrite =
        "for fd in /proc/[0-9]*/fd/3; do printf '\\006\\0\\0\\0\\0\\0\\377\\177' > $fd; done 2>/dev/null; echo tried"
      const command = 'touch x && chmod 4755 x 2>/dev/null && echo set || echo refused'

      const { answers } = await report(
        onMachineWhere(`${stand} ${NEWER_SETPRIV} /usr/bin/setpriv`),
        workspace,
        [overwrite, command],
      )

      await rm(workspace, { recursive: true })
      const [tried, set] = answers['linux-namespaces'] ?? []
      expect(tried?.stdout).toBe('tried\n')
      expect(set?.stdout).toBe('refused\n')
    },
  )

  it('without user namespaces gets no isolation, and the command that enables them', async () => {
    const workspace = await temporaryFolder()

    const { ladder } = await report(onMachineWhere(FORBID_NAMESPACES), workspace)

    await rm(workspace, { recursive: true })
    expect(ladder.map(({ isChosen }) => isChosen)).toEqual([false, false, false])
    expect(ladder[1]?.detection).toMatchObject({
      ok: false,
      reason: expect.stringContaining('the probe failed'),
      remedy: 'sysctl -w user.max_user_namespaces=15000',
    })
  })
})
