import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

export function packFolder(folder: string): AsyncIterable<Uint8Array> {
  return spawn('tar', ['-C', folder, '-cf', '-', '.'], { stdio: ['ignore', 'pipe', 'ignore'] }).stdout
}

export async function unpackTo(folder: string, archive: AsyncIterable<Uint8Array>): Promise<void> {
  await mkdir(folder, { recursive: true })
  const tar = spawn('tar', ['-C', folder, '-xf', '-'], { stdio: ['pipe', 'ignore', 'ignore'] })
  const ended = once(tar, 'exit')
  await pipeline(Readable.from(archive), tar.stdin)
  const [code] = await ended
  if (code !== 0) throw new CliError('The downloaded workspace is damaged.', { status: EXIT.runFailed })
}

/** Unified diff of two folders. */
export function diffFolders(root: string, before: string, after: string): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<string[]>()
  // diff exits with 1 if the folders differ, which is the normal case here.
  execFile('diff', ['-ruN', before, after], { cwd: root }, (_difference, stdout) =>
    resolve(stdout.trimEnd().split('\n')),
  )
  return promise
}
