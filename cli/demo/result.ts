import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Client } from '../../runtime/client/client.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { diffFolders, unpackTo } from './archive.ts'
import type { DemoSetup } from './demo-setup.ts'
import { FIXED_FILE } from './plan.ts'

/** The workspace after the run, read on this machine. */
export interface Result {
  readonly fixedFile: string
  readonly buildExists: boolean
  /** Downloaded workspace compared with the uploaded one. Empty if the run worked in the folder itself. */
  readonly diff: readonly string[]
}

/** Reads the run's folder, or downloads the workspace of an uploaded run. */
export async function readResult(client: Client, setup: DemoSetup, uploadedFor?: string): Promise<Result> {
  if (uploadedFor === undefined) return { ...(await look(setup.workspace)), diff: [] }
  const folder = join(setup.root, 'result')
  await unpackTo(folder, await client.downloadWorkspace(uploadedFor))
  const diff = await diffFolders(setup.root, basename(setup.workspace), basename(folder))
  return { ...(await look(folder)), diff }
}

async function look(folder: string): Promise<Omit<Result, 'diff'>> {
  const fixedFile = await readFile(join(folder, FIXED_FILE), 'utf8')
  return { fixedFile, buildExists: existsSync(join(folder, 'build')) }
}

export function changeOf({ paint }: Terminal, diff: readonly string[]): string[] {
  if (diff.length === 0) return []
  const line = (text: string) => (/^[+-]/.test(text) ? paint.bold(visible(text)) : paint.dim(visible(text)))
  return ['', 'Changes in the downloaded workspace:', ...diff.map(line)]
}
