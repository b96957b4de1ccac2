import { dirname, isAbsolute } from 'node:path'
import type { RunEvent } from '../../contracts/events.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import { visible } from '../terminal/visible.ts'

type DataOf<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>['data']
type Trusted = DataOf<'policy.settings_trusted'>
type Ignored = DataOf<'policy.settings_ignored'>

const folderOf = (file: string): string => dirname(dirname(file))

export const trustedWords = ({ path, settings }: Trusted): string =>
  settings === 'file'
    ? `First run in ${visible(folderOf(path))}: its settings file is in force from now on.`
    : `First run in ${visible(folderOf(path))}, which has no settings file: the defaults are in force from now on.`

const WHY: Readonly<Record<Ignored['reason'], string>> = {
  changed: 'is ignored: it differs from the settings in force.',
  added: 'is ignored: the defaults are in force, because the file did not exist before.',
  removed: 'is missing: the settings in force stay as they are.',
}

export const ignoredWords = ({ path, reason }: Ignored): string => `${visible(path)} ${WHY[reason]}`

/** How to accept the file. An upload has no folder on the service's machine. */
export const acceptWords = ({ path }: Ignored, suffix: string): string[] =>
  isAbsolute(path)
    ? [
        'To see the difference and accept it:',
        `agentweaver trust ${visible(quoteWord(folderOf(path)))}${suffix}`,
      ]
    : ['The settings of an upload come with the request that starts the run.']
