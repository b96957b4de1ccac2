import { createInterface } from 'node:readline/promises'
import { SandboxError } from '../../kit/errors.ts'
import { findEarlierFolders, hasState, undecidedWords } from '../../state-folder/earlier-folder.ts'
import { moveState } from '../../state-folder/move-state.ts'
import type { ApiConfig } from '../config.ts'

type Console = {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly output: NodeJS.WritableStream & { readonly isTTY?: boolean }
}
type Settings = Pick<ApiConfig, 'home' | 'stateDir' | 'isStateDirNamed' | 'readyFormat'>

/**
 * Earlier versions kept their state in `.agentweaver/` of their working directory. Before a new state is created in the
 * user's state folder, a person decides what to do with the old one: by an answer at the terminal, otherwise with one of
 * the commands in the error.
 */
export async function settleEarlierState(
  { home, stateDir, isStateDirNamed, readyFormat }: Settings,
  { cwd, input, output }: Console & { readonly cwd: string },
): Promise<void> {
  if (isStateDirNamed) return
  const { found } = findEarlierFolders(cwd, home)
  const [nearest] = found
  if (nearest === undefined) return
  const canAsk = readyFormat === 'text' && input.isTTY === true && output.isTTY === true
  if (hasState(stateDir)) {
    if (canAsk) output.write(`Not used: the state of an earlier version in ${found.join(', ')}\n`)
    return
  }
  if (!canAsk) throw new SandboxError('invalid_config', undecidedWords(found, stateDir))
  if (!(await isMoveWanted({ input, output }, { nearest, stateDir }))) return
  await moveState({ from: nearest, to: stateDir })
  output.write(`Moved the state of ${nearest} to ${stateDir}.\n\n`)
}

type Question = { readonly nearest: string; readonly stateDir: string }

async function isMoveWanted({ input, output }: Console, { nearest, stateDir }: Question): Promise<boolean> {
  const lines = createInterface({ input, output, terminal: true })
  const ended = new Promise<never>((_resolve, reject) => {
    const end = () =>
      reject(new SandboxError('invalid_config', 'Not started: the question was not answered.'))
    lines.once('close', end).once('SIGINT', end)
  })
  ended.catch(() => undefined)
  output.write(`The state of an earlier version (store, keys, API key) is in ${nearest}.
It belongs in ${stateDir} now, outside of any project.
`)
  try {
    while (true) {
      const answer = await Promise.race([
        lines.question('Move it there? [y = move, n = start with a new, empty one] '),
        ended,
      ])
      if (/^y(es)?$/i.test(answer.trim())) return true
      if (/^no?$/i.test(answer.trim())) return false
    }
  } finally {
    lines.close()
    input.pause()
  }
}
