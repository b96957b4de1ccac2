import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { RunDiff } from '../../contracts/results.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { count, handOffLines } from '../results/result-lines.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { sizeWords } from '../upload/size-words.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const MAX_SHOWN = 10

export function pullCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'pull',
    about:
      'Download the files of a run into a new folder. Git directories, links that lead out, and set-user-ID bits are left out.',
    example: 'agentweaver pull run_0197f6f2… ./result',
  })
    .argument('<run>', 'id of the run or sandbox')
    .argument('[dir]', 'a new or empty folder (default: a new one with the id of the run)')
  command.action(async (id: string, dir: string | undefined) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    const { pullFiles, requireEmpty } = await import('../results/pull-files.ts')
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const { client } = connection
    const run = await client.readRun(id)
    const folder = resolve(terminal.io.cwd, dir ?? run.id)
    await requireEmpty(folder)
    const stop = new AbortController()
    using _interrupts = onInterrupt(() => stop.abort(INTERRUPTED))
    terminal.progress.waitFor('downloading the files')
    const archive = await client.downloadWorkspace(id, { signal: stop.signal })
    const pulled = await pullFiles(archive, folder, stop.signal).catch((error: unknown) => {
      throw stop.signal.aborted ? INTERRUPTED : error
    })
    terminal.progress.clear()
    if (options.json) terminal.json(pulled)
    else {
      terminal.print(pulled.folder)
      terminal.note(
        `${count(pulled.entries, 'file and folder', 'files and folders')}, ${sizeWords(pulled.bytes)}.`,
      )
      tellNames(terminal, 'Left out, because git would obey it:', topmost(pulled.leftOut))
      tellNames(terminal, 'Renamed, because git would take its folder for a repository:', pulled.held)
      const diff = await client.readDiff(id).catch(noDiff)
      if (diff) terminal.note(handOffLines(diff, terminal.notePaint))
    }
    context.exit(EXIT.ok)
  })
  return command
}

const INTERRUPTED = new CliError('The download was interrupted. Nothing was written.', {
  status: EXIT.interrupted,
})

function tellNames(terminal: Terminal, title: string, names: readonly string[]): void {
  if (names.length === 0) return
  const left = names.length - MAX_SHOWN
  terminal.note([
    title,
    ...names.slice(0, MAX_SHOWN).map((name) => `  ${visible(name)}`),
    ...(left > 0 ? [`  … ${left} more`] : []),
  ])
}

/** Leaves out each path that lies below another one. */
function topmost(paths: readonly string[]): string[] {
  const all = new Set(paths)
  const isBelow = (path: string) =>
    [...path.matchAll(/\//g)].some(({ index }) => all.has(path.slice(0, index)))
  return paths.filter((path) => !isBelow(path))
}

/** A run that still works, or on an empty workspace, has none. */
function noDiff(error: unknown): RunDiff | undefined {
  if (error instanceof SandboxError) return undefined
  throw error
}
