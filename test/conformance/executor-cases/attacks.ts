import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { directBackend } from '../../../runtime/executors/direct.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { temporaryFolder } from './site.ts'
import { execute, type Subject } from './subject.ts'

const CANARY = 'canary-of-the-host'

/** Attacks of a malicious agent. A control shows that each attack works without isolation. */
export function attackCases(subject: Subject): void {
  const { isolation, ownRoot } = subject.supports

  describe.skipIf(!isolation)('attacks', () => {
    it('cannot read files of the host', async () => {
      const folder = await temporaryFolder()
      await writeFile(join(folder, 'file'), CANARY)
      const command = `cat ${folder}/file`

      const outcome = await subject.run(command)
      const control = await subject.runUnisolated(command)

      await rm(folder, { recursive: true })
      expect(control.stdout).toBe(CANARY)
      expect(outcome.stdout).toBe('')
    })

    it.skipIf(!subject.supports.syscallFilter)('cannot leave a program that runs as its owner', async () => {
      const command = (name: string) => `cp /bin/sh ${name} && chmod 4755 ${name}; stat -c %a ${name}`

      const outcome = await subject.run(command('left-by-command'))
      const control = await subject.runUnisolated(command('left-by-control'))

      expect(control.stdout).toBe('4755\n')
      expect(outcome.stdout).toBe('755\n')
      expect(outcome.stderr).toContain('Operation not permitted')
    })

    it.skipIf(!ownRoot)('does not follow a link that replaced the workspace', async () => {
      const above = await temporaryFolder()
      const workspace = join(above, 'project')
      const outside = await temporaryFolder()
      await mkdir(workspace)
      await writeFile(join(outside, 'file'), CANARY)
      const executor = await subject.create(workspace)
      const control = await directBackend.create({ workspace, toolRoots: [], log: silentLog })

      const before = await execute(executor, 'true')
      await rename(workspace, `${workspace}-gone`)
      await symlink(outside, workspace)
      const [outcome, unisolated] = [await execute(executor, 'cat file'), await execute(control, 'cat file')]

      await Promise.all([executor.close(), control.close()])
      await Promise.all([above, outside].map((folder) => rm(folder, { recursive: true })))
      expect(before.exitCode).toBe(0)
      expect(unisolated.stdout).toBe(CANARY)
      expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
      expect(outcome.message).toBe('the workspace was replaced by another folder')
    })

    it
      .skipIf(!ownRoot)
      .each([
        '/etc/shadow',
        '/run',
        '/sys',
        '/root/.ssh',
        '/var',
        '/boot',
        '/mnt',
        '/srv',
        '/etc/ssl/private',
      ])('does not have %s', async (path) => {
      expect((await subject.run(`test -e ${path}`)).exitCode).toBe(1)
    })

    it.skipIf(!ownRoot)('cannot find the home folder of the user who runs the service', async () => {
      const homes = [homedir(), '/root', '/home']

      const outcome = await subject.run(`ls -A ${homes.join(' ')}`)

      // A tool folder below a home folder is visible, with the empty folders above it.
      const leading = homes.flatMap((home) => firstBelow(home, process.execPath))
      const names = outcome.stdout.split('\n').filter((line) => line !== '' && !line.endsWith(':'))
      expect(names).toContain('sandbox')
      expect(names.filter((name) => name !== 'sandbox' && !leading.includes(name))).toEqual([])
    })

    it.each([
      ['the root of the first process', 'cat /proc/1/root'],
      ['its own root', 'cat /proc/self/root'],
      ['the working directory of the first process', 'cat /proc/1/cwd/../../..'],
      ['parents of the root', 'cat /../../..'],
      ['the folder that held the old root', 'cat /.old'],
      ['the working directory by descriptor', 'exec 5</; cat /proc/self/fd/5/..'],
    ])('cannot escape through %s', async (_what, prefix) => {
      const folder = await temporaryFolder()
      await writeFile(join(folder, 'file'), CANARY)

      const outcome = await subject.run(`${prefix}${folder}/file`)

      await rm(folder, { recursive: true })
      expect(outcome.stdout).not.toContain(CANARY)
      expect(outcome.exitCode).not.toBe(0)
    })

    it('cannot see processes of the host', async () => {
      const command = `cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c ${process.pid}-of-the-host`
      const neighbour = spawn('/bin/sh', ['-c', `read -r _; : ${process.pid}-of-the-host`], {
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      await once(neighbour, 'spawn')

      const outcome = await subject.run(command.replace('-of', '[-]of'))
      const control = await subject.runUnisolated(command.replace('-of', '[-]of'))

      neighbour.kill('SIGKILL')
      expect(Number(control.stdout)).toBeGreaterThan(0)
      expect(outcome.stdout).toBe('0\n')
    })

    it('cannot kill processes of the host', async () => {
      const victim = spawn('sleep', ['60'], { stdio: 'ignore' })
      await once(victim, 'spawn')

      const outcome = await subject.run(`kill -KILL ${victim.pid}`)
      if (ownRoot) await subject.run('kill -KILL -1')
      const survived = victim.exitCode === null && victim.signalCode === null
      const control = await subject.runUnisolated(`kill -KILL ${victim.pid}`)

      expect(outcome.exitCode).not.toBe(0)
      expect(survived).toBe(true)
      expect(control.exitCode).toBe(0)
    })

    it.each([
      ...[
        '/new',
        '/usr/new',
        '/usr/bin/sh',
        '/etc/passwd',
        '/etc/ld.so.cache',
        '/dev/new',
        '/proc/sysrq-trigger',
      ],
      ...[
        '/proc/sys/kernel/core_pattern',
        '/proc/sys/kernel/hostname',
        '/proc/sys/vm/drop_caches',
        '/root/new',
      ],
    ])('cannot write %s', async (path) => {
      const outcome = await subject.run(`true > ${path}`)

      expect(outcome.exitCode).not.toBe(0)
      expect(existsSync('/new') || existsSync('/root/new')).toBe(false)
    })

    it.skipIf(!ownRoot)('can write only to bounded places', async () => {
      const command = `awk '$4 ~ /(^|,)rw(,|$)/ {print $2, $3, $4}' /proc/self/mounts`

      const outcome = await subject.run(command)

      const writable = outcome.stdout.trim().split('\n')
      const unbounded = writable.filter((line) => / tmpfs /.test(line) && !/size=/.test(line))
      const places = writable.filter((line) => !/^\/(proc|dev)/.test(line)).map((line) => line.split(' ')[0])
      expect(unbounded.filter((line) => !line.startsWith('/dev '))).toEqual([])
      expect(places.sort()).toEqual(['/home/sandbox', '/tmp', '/workspace'])
    })

    it.skipIf(!ownRoot)('cannot fill its temporary folder beyond the limit', async () => {
      const outcome = await subject.run('head -c 300000000 /dev/zero > /dev/shm/big; wc -c < /dev/shm/big')

      expect(outcome.stderr).toContain('No space left')
      expect(Number(outcome.stdout)).toBeLessThan(300_000_000)
    })

    it.skipIf(!ownRoot)(
      'leaves nothing in its home folder, temporary folder or shared memory for the next command',
      async () => {
        await subject.run('echo x > ~/left; echo x > /tmp/left; echo x > /dev/shm/left')

        const outcome = await subject.run('ls -A ~ /tmp /dev/shm')

        expect(outcome.stdout).not.toContain('left')
      },
    )

    it('has no capabilities and cannot gain privileges', async () => {
      const outcome = await subject.run('grep -E "^(CapPrm|CapEff|CapAmb|NoNewPrivs)" /proc/self/status')

      expect(outcome.stdout).toMatch(/CapPrm:\t0+\nCapEff:\t0+\nCapAmb:\t0+\nNoNewPrivs:\t1\n/)
    })

    it.skipIf(!ownRoot)(
      'cannot be given capabilities, and neither can the first process in the sandbox',
      async () => {
        const outcome = await subject.run('grep -h ^CapBnd /proc/self/status /proc/1/status')

        expect(outcome.stdout).toMatch(/^CapBnd:\t0+\nCapBnd:\t0+\n$/)
      },
    )

    it.skipIf(!ownRoot)('ignores setuid bits and devices in writable places', async () => {
      const outcome = await subject.run(
        "grep -E '^[^ ]+ (/|/usr|/workspace|/tmp|/home/sandbox) ' /proc/self/mounts",
      )

      const lines = outcome.stdout.trim().split('\n')
      expect(lines).toHaveLength(5)
      for (const line of lines) expect(line).toMatch(/nosuid.*nodev/)
    })

    it.each([
      ['mount', 'mount -t tmpfs none /tmp'],
      ['bind mount', 'mount --bind / /tmp'],
      ['unmount the workspace', 'umount -l /workspace'],
      ['remount the system writable', 'mount -o remount,rw /usr'],
      ['remount kernel settings writable', 'mount -o remount,rw,bind /proc/sys'],
      ['create a user namespace', 'unshare --user true'],
      ['become root in a user namespace', 'unshare --user --map-root-user --mount true'],
      ['create a mount namespace', 'unshare --mount true'],
      ['enter another namespace', 'nsenter --target 1 --mount --user true'],
      ['change its root', 'chroot / true'],
      ['create a device', 'mknod /tmp/disk b 254 0'],
      ['set the host name', 'hostname evil'],
      ['raise its own limits', 'prlimit --core=unlimited:unlimited true'],
      ['use another user', 'su -s /bin/sh -c true nobody </dev/null'],
    ])('cannot %s', async (_what, command) => {
      const outcome = await subject.run(command)

      expect(outcome.exitCode).not.toBe(0)
      expect(outcome.exitCode).not.toBe(127)
    })

    it('has no terminal to type into', async () => {
      const outcome = await subject.run('exec 5<>/dev/tty')

      expect(outcome.exitCode).not.toBe(0)
    })

    it.skipIf(!subject.supports.processLimit)('is limited in its number of processes', async () => {
      // Not bash, which retries a failed fork for half a minute.
      const command =
        "sh -c 'i=0; while [ $i -lt 3000 ]; do sleep 3000 >/dev/null & i=$((i+1)); echo $i; done' | tail -1"

      const outcome = await subject.run(command)

      const started = Number(outcome.stdout.trim())
      expect(started).toBeGreaterThan(100)
      expect(started).toBeLessThanOrEqual(1_400)
    })

    it('survives a fork bomb: the timeout kills all of it', async () => {
      // Doubles slowly, so that it tests the cleanup and not the machine.
      const bomb = 'b() { sleep 0.4; b & b & sleep 60; }; b'

      const outcome = await subject.run(bomb, { timeoutMs: 1_000 })
      const after = await subject.run('echo alive')

      expect(outcome.reason).toBe('timeout')
      expect(after.stdout).toBe('alive\n')
    })
  })
}

/** The first name below a folder on the way to a path, if the path lies in it. */
const firstBelow = (folder: string, path: string): string[] =>
  path.startsWith(`${folder}/`)
    ? path
        .slice(folder.length + 1)
        .split('/')
        .slice(0, 1)
    : []
