import type { Command } from 'commander'
import * as z from 'zod'
import type { WorkspaceSource } from '../../contracts/api.ts'
import { present } from '../../runtime/kit/present.ts'
import { usageError } from '../cli-error.ts'
import type { Connection } from '../service/connect.ts'
import type { StartUpload } from '../upload/upload-run.ts'
import type { CliContext } from './command.ts'
import { collectWords } from './pairs.ts'

/** Options for a repository that the sandbox clones, and for a folder that is uploaded. */
export const SourceOptions = {
  /** False with --no-git. */
  git: z.union([z.string(), z.literal(false)]).optional(),
  includeSecret: z.array(z.string()).default([]),
  acceptSettings: z.boolean().default(false),
  ref: z.string().optional(),
  depth: z.coerce.number().int().min(1).optional(),
}
export type SourceOptions = {
  readonly git?: string | false | undefined
  readonly includeSecret: readonly string[]
  readonly acceptSettings: boolean
  readonly ref?: string | undefined
  readonly depth?: number | undefined
}

export const sourceOptions = (command: Command): Command =>
  command
    .option(
      '--git <url>',
      'work on a clone of this repository (https), which the sandbox makes through the egress proxy',
    )
    .option('--no-git', 'with an upload: leave the git history out')
    .option(
      '--include-secret <path>',
      'with an upload: include this untracked file, although it may contain secrets; may be repeated',
      collectWords,
    )
    .option('--accept-settings', 'with an upload: the settings file of the folder counts as it is')
    .option('--ref <name>', 'with --git: a branch, a tag or a full commit id (default: the branch of HEAD)')
    .option('--depth <n>', 'with --git: how many commits of history to fetch (default: all)')

/** The repository of `--git URL`. Undefined without it. */
export function repositoryAt({
  git,
  ref,
  depth,
}: SourceOptions): Extract<WorkspaceSource, { kind: 'git' }> | undefined {
  if (git) return { kind: 'git', url: git, ...present({ ref, depth }) }
  if (ref !== undefined || depth !== undefined)
    throw usageError('--ref and --depth are for a repository: give it with --git URL.')
  return undefined
}

export function refuseUploadOptions({ git, includeSecret, acceptSettings }: SourceOptions): void {
  if (git === false || includeSecret.length > 0 || acceptSettings)
    throw usageError(
      '--no-git, --include-secret and --accept-settings are for a folder that is uploaded to a service at a URL.',
    )
}

type Folder = {
  readonly connection: Connection
  readonly folder: string
  readonly options: SourceOptions & { readonly json: boolean }
}

/** Uploads a folder to a service at a URL, which may be on another machine. Returns the id of the run or the sandbox. */
export async function uploadFolder(
  { terminal }: CliContext,
  { connection, folder, options }: Folder,
  start: StartUpload,
): Promise<string> {
  const { uploadRun } = await import('../upload/upload-run.ts')
  const uploading = {
    ...{ terminal, client: connection.client, json: options.json, folder },
    withHistory: options.git !== false,
    secrets: options.includeSecret,
    acceptsSettings: options.acceptSettings,
  }
  return uploadRun(uploading, start)
}
