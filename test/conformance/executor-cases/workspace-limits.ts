import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../helpers/until.ts'
import { temporaryFolder } from './site.ts'
import { execute, type Options, type Outcome, type Subject } from './subject.ts'

const MIB = 1_048_576
const LIMITS = { maxWorkspaceBytes: 64 * MIB, maxWorkspaceFiles: 2_000 }

/** Appends to a file until it is stopped, slowly enough for a busy machine. */
const FILL = (file: string) => `while :; do head -c ${4 * MIB} /dev/zero >> ${file}; sleep 0.1; done`

/** Renames each of eight nested folders in a loop, and writes to a file in the deepest one. */
const RENAME_AND_FILL = `
  const fs = require("fs")
  const names = Array(8).fill("a")
  fs.mkdirSync(names.join("/"), { recursive: true })
  const file = fs.openSync(names.join("/") + "/much", "w")
  const block = Buffer.alloc(65536)
  for (let round = 0, next = 0; ; round++) {
    for (const level of names.keys()) {
      const before = names.slice(0, level + 1).join("/")
      names[level] = names[level] === "a" ? "b" : "a"
      fs.renameSync(before, names.slice(0, level + 1).join("/"))
    }
    if (Date.now() < next) continue
    fs.writeSync(file, block)
    next = Date.now() + 2
  }`

export function workspaceLimitCases(subject: Subject): void {
  /** Creates an empty sandbox. A pod has one workspace for all cases. */
  async function sandbox(before: (workspace: string) => Promise<void> = async () => undefined) {
    if (!subject.isLocal)
      return { run: (command: string, options: Options) => subject.run(command, options), workspace: '' }
    const workspace = await temporaryFolder()
    await before(workspace)
    const executor = await subject.create(workspace)
    onTestFinished(async () => {
      await executor.close()
      await rm(workspace, { recursive: true, force: true })
    })
    return { run: (command: string, options: Options) => execute(executor, command, options), workspace }
  }
  const stopped = (outcome: Outcome, why: string) => {
    expect(outcome).toMatchObject({ reason: 'workspace_full', timedOut: false })
    expect(outcome.message).toContain(why)
  }

  describe('a full workspace', () => {
    it('stops a command that writes too much, and lets the next one delete', async () => {
      const { run } = await sandbox()

      stopped(
        await run(`echo begins; ${FILL('much')}`, LIMITS),
        'and max_workspace_bytes allows 64 MiB. Delete what is not needed. The limit comes from the settings',
      )
      expect(await run('rm much && echo deleted', LIMITS)).toMatchObject({ stdout: 'deleted\n', exitCode: 0 })
    })

    it('stops a command that hides what it writes in a folder without rights', async () => {
      const { run } = await sandbox()
      const hidden = `mkdir hidden && cd hidden && exec 3>much && chmod 000 . && while :; do head -c ${4 * MIB} /dev/zero >&3; sleep 0.1; done`

      stopped(await run(hidden, LIMITS), 'max_workspace_bytes')
      expect(await run('chmod 700 hidden && rm -r hidden', LIMITS)).toMatchObject({ exitCode: 0 })
    })

    it.skipIf(!subject.isLocal)('stops a command that hides what it writes by renaming folders', async () => {
      const { run } = await sandbox()
      // Its files cannot all be counted, so those that other tests create meanwhile count too.
      const limits = { ...LIMITS, maxWorkspaceFiles: 1_000_000 }
      stopped(await run(`exec node -e '${RENAME_AND_FILL}'`, limits), 'max_workspace_bytes')
    })

    it('stops a command that writes to files whose names are not valid text', async () => {
      const { run } = await sandbox()
      const enter = `d=$(printf '\\377'); mkdir "$d" && cd "$d"`

      stopped(await run(`${enter} && ${FILL('much')}`, LIMITS), 'max_workspace_bytes')
      expect(await run(`d=$(printf '\\377'); rm -r "$d"`, LIMITS)).toMatchObject({ exitCode: 0 })
    })

    it('does not stop a short command; the next command can delete files but not write', async () => {
      const { run } = await sandbox()
      const isFull = async () => (await run('true', LIMITS)).message?.includes('could not write to files')
      // Other tests delete large files of the same file system, which hides that it grows.
      for (let name = 1; name <= 2 || (name <= 10 && !(await isFull())); name++)
        expect(await run(`head -c ${40 * MIB} /dev/zero > a${name}`, LIMITS)).toMatchObject({ exitCode: 0 })

      const next = await run('echo text > c; cat a1 | wc -c; rm a1 && echo deleted', LIMITS)
      expect(next.stdout).toBe(`${40 * MIB}\ndeleted\n`)
      expect(next.message).toContain(
        'The command could not write to files, because the commands of this sandbox have written',
      )
      const rest = await run('rm -f a* c; echo gone', LIMITS)
      expect(rest.stdout).toBe('gone\n')
      const last = await run('echo text > c && cat c && rm c', LIMITS)
      expect(last).toMatchObject({ exitCode: 0, stdout: 'text\n' })
      expect(last.message ?? '').not.toContain('could not write')
    })

    it.skipIf(!subject.isLocal)('rejects commands after many short commands added folders', async () => {
      const { run, workspace } = await sandbox()
      const limits = { ...LIMITS, maxWorkspaceFiles: 1_000 }
      let round = 0
      let outcome = await run('true', limits)
      await until('a command is rejected', async () => {
        // A busy machine may look at a command before it ends, and stop it.
        outcome = await run(`mkdir $(seq -f folder-%.0f ${round * 400} ${++round * 400 - 1})`, limits)
        return outcome.message?.includes('The command was not started') ?? false
      })
      stopped(outcome, 'too many files, folders or links were added')

      const folders = await readdir(workspace)
      expect(folders.length).toBeGreaterThanOrEqual(1_100)
      for (const name of folders.slice(200)) await rm(join(workspace, name), { recursive: true })
      await until('commands run again', async () => (await run('rmdir folder-1*', limits)).exitCode === 0)
    })

    it('stops a command that writes too many files', async () => {
      const { run } = await sandbox()
      const many =
        'n=0; while :; do mkdir many-$n && (cd many-$n && touch $(seq 1 200)); n=$((n+1)); sleep 0.1; done'

      stopped(await run(many, LIMITS), 'files, and max_workspace_files allows 2000')
      expect(await run('rm -r many-*', LIMITS)).toMatchObject({ exitCode: 0 })
    })

    it.skipIf(!subject.isLocal)(
      'does not stop a command that deletes while other programs write to the same disk',
      async () => {
        const { run, workspace } = await sandbox()
        const beside = await temporaryFolder()
        onTestFinished(() => rm(beside, { recursive: true, force: true }))
        stopped(await run(FILL('much'), LIMITS), 'max_workspace_bytes')

        const wait = 'mkdir begun; until [ -d go ]; do sleep 0.1; done; sleep 2'
        const deleting = run(`${wait}; rm much && echo deleted`, LIMITS)
        await until('the command has begun', () => existsSync(join(workspace, 'begun')))
        await writeFile(join(beside, 'large'), Buffer.alloc(16 * MIB))
        await mkdir(join(workspace, 'go'))

        expect(await deleting).toMatchObject({ exitCode: 0, stdout: 'deleted\n' })
      },
    )

    it.skipIf(!subject.isLocal)(
      'counts what commands write, not older files or those of other programs',
      async () => {
        const { run, workspace } = await sandbox(async (folder) => {
          const file = join(folder, 'before')
          await writeFile(file, Buffer.alloc(80 * MIB))
          // File times may lag behind, so files that changed in the last second before the sandbox count.
          await until('the file is older than the sandbox', async () => {
            const { ctimeMs } = await stat(file)
            return Date.now() - ctimeMs > 1_500
          })
        })
        const beside = await temporaryFolder()
        onTestFinished(() => rm(beside, { recursive: true, force: true }))

        const running = run(`touch began; until [ -e go ]; do sleep 0.1; done; ${FILL('small')}`, LIMITS)
        await until('the command has begun', () => existsSync(join(workspace, 'began')))
        // The file system grows by more than the limit, and the file in the workspace is larger than it.
        await writeFile(join(beside, 'large'), Buffer.alloc(160 * MIB))
        await writeFile(join(workspace, 'go'), '')

        stopped(await running, 'max_workspace_bytes')
        expect((await stat(join(workspace, 'small'))).size).toBeGreaterThanOrEqual(
          LIMITS.maxWorkspaceBytes - 2 * MIB,
        )
      },
    )
  })
}
