import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { deadline } from '../../runtime/kit/deadline.ts'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Calls npm with the settings of this machine: where its registry is. Rejects with what npm wrote. */
export async function npm(args: readonly string[], cwd: string): Promise<string> {
  const options = { cwd, timeout: 150_000, maxBuffer: 64 * 1024 * 1024 }
  return (await promisify(execFile)('npm', [...args, '--no-audit', '--no-fund'], options)).stdout
}

export interface Tarball {
  readonly path: string
  readonly bytes: number
  readonly files: readonly string[]
}

/** Packs the project with `npm pack`. */
export async function packInto(folder: string): Promise<Tarball> {
  const stdout = await npm(['pack', '--json', '--pack-destination', folder], ROOT)
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [
    { filename: string; size: number; files: { path: string }[] },
  ]
  return {
    path: join(folder, packed.filename),
    bytes: packed.size,
    files: packed.files.map(({ path }) => path),
  }
}

/** A folder that was empty, with the tarball installed, and how its command is called there. */
export async function installInto(folder: string, tarball: string) {
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), '{ "private": true }\n')
  await npm(['install', '--prefer-offline', tarball], folder)
  const home = join(folder, 'home')
  await mkdir(home)
  return {
    /** Starts `npx agentweaver`, found by the PATH of a given Node and in a home without anything. */
    start(node: string, argv: readonly string[]) {
      const PATH = `${dirname(node)}:${process.env['PATH']}`
      const env = { PATH, HOME: home, npm_config_update_notifier: 'false', AGENTWEAVER_PORT: '0' }
      return spawn('npx', ['--no-install', 'agentweaver', ...argv], { cwd: folder, env, stdio: 'pipe' })
    },
    async run(node: string, argv: readonly string[]) {
      const child = this.start(node, argv)
      child.stdin.end()
      const [stdout, stderr, [status]] = await deadline(
        `npx agentweaver ${argv.join(' ')}`,
        150_000,
        Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]),
      )
      return { stdout, stderr, status: status as number | null }
    },
  }
}
