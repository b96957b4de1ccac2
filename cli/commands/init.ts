import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import * as z from 'zod'
import { SETTINGS_FILE } from '../../contracts/policy.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { hasHost } from '../../policies/agent/egress/narrow.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { openWorkspace, type WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { findKinds } from '../init/kinds.ts'
import { openProject } from '../init/project-files.ts'
import { type Settings, settingsText } from '../init/settings-text.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'
import { type EgressText, readEgressFile, withEgressFile } from './egress-file.ts'

const InitOptions = z.object({
  json: z.boolean().default(false),
  force: z.boolean().default(false),
  egressFile: z.string().optional(),
})

export function initCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'init',
    about:
      'Write a commented .agentweaver/settings.yml for a project. Looks at its manifests, and runs nothing of it.',
    example: 'agentweaver init\nagentweaver init ~/project --force',
  })
    .argument('[dir]', 'the folder of the project (default: the current one)')
    .option('--force', 'replace a settings file that exists')
    .option(
      '--egress-file <path>',
      'the egress file of the service (default: AGENTWEAVER_EGRESS_FILE, else the built-in list)',
    )
  command.action(async (dir: string | undefined) => {
    const options = parseOptions(InitOptions, command)
    const { terminal } = context
    const folder = await projectFolder(dir ?? '.', terminal.io.cwd)
    const egress = await readEgressFile(context, { given: options.egressFile, option: '--egress-file' })
    const written = await inFolder(folder, (workspace) => write(workspace, egress, options.force))
    const path = `${folder}/${SETTINGS_FILE.path}`
    if (options.json) terminal.json(toJson(path, written))
    else {
      terminal.print(visible(path))
      terminal.note(nextLines(written, dir))
    }
    context.exit(EXIT.ok)
  })
  return command
}

async function projectFolder(dir: string, cwd: string): Promise<string> {
  try {
    return await realpath(resolve(cwd, dir))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw usageError(`There is no folder ${dir}.`)
    throw usageError(`${dir} cannot be opened.`)
  }
}

async function inFolder<T>(folder: string, work: (workspace: WorkspaceEngine) => Promise<T>): Promise<T> {
  let workspace: WorkspaceEngine | undefined
  try {
    workspace = await openWorkspace(folder)
    return await work(workspace)
  } catch (error) {
    if (error instanceof FileFault) throw usageError(`${visible(error.message)}.`)
    throw error
  } finally {
    workspace?.close()
  }
}

async function write(workspace: WorkspaceEngine, egress: EgressText, isForced: boolean): Promise<Settings> {
  const found = await findKinds(await openProject(workspace))
  const allowed = hostsOf(egress)
  const registries = [...new Set(found.flatMap((one) => one.registries))]
  const settings = {
    found,
    listed: registries.filter((host) => hasHost(allowed, host)),
    notListed: registries.filter((host) => !hasHost(allowed, host)),
  }
  const { result } = await workspace.perform(
    { op: 'write', path: SETTINGS_FILE.path, create: isForced ? 'allowed' : 'exclusive' },
    { payload: new TextEncoder().encode(settingsText(settings)) },
  )
  if (result.ok) return settings
  if (result.code === 'exists')
    throw new CliError(`${SETTINGS_FILE.path} exists. Nothing was changed.`, {
      status: EXIT.refused,
      hint: 'Replace it with --force. See what it does with "agentweaver trust".',
    })
  throw new CliError(`${visible(result.message)}. Nothing was changed.`, { status: EXIT.refused })
}

/** Hosts that the commands of a run may reach, if the network is on. */
const hostsOf = (egress: EgressText): string[] =>
  withEgressFile(egress, () =>
    loadEgressPolicy(egress.text, egress.name)
      .classes.agent.filter(({ caller }) => caller === undefined)
      .map(({ host }) => host),
  )

const toJson = (path: string, { found, listed, notListed }: Settings) => ({
  path,
  found: found.map(({ name }) => name),
  commands: [...new Set(found.flatMap(({ commands }) => commands))],
  egressHosts: listed,
  notListed,
})

function nextLines({ found, notListed }: Settings, dir: string | undefined): string[] {
  const place = dir === undefined ? '' : ` ${quoteWord(dir)}`
  return [
    found.length === 0
      ? 'No kind of project was recognised. Edit the file before you accept it.'
      : `Found: ${found.map(({ name }) => name).join(', ')}.`,
    ...(notListed.length === 0
      ? []
      : [`Not in the operator's egress list, so no run can reach them: ${notListed.join(', ')}`]),
    '',
    'Read the file, then:',
    `  agentweaver trust${place}`,
    `  agentweaver run "fix the failing test" --workspace ${dir === undefined ? '.' : quoteWord(dir)} --agent openai --model NAME`,
  ]
}
