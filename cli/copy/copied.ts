import type { HandOffKind } from '../../policies/agent/hand-off.ts'
import { count } from '../results/result-lines.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'

export interface Skipped {
  readonly path: string
  readonly reason: string
}

/** The result of a copy. */
export interface Copied {
  readonly from: string
  readonly to: string
  readonly files: number
  readonly bytes: number
  /** Entries that were left out. */
  readonly skipped: readonly Skipped[]
  /** Copied files that tools on this machine execute or obey. Only of copies to this machine. */
  readonly handOff: readonly { readonly path: string; readonly kind: HandOffKind }[]
}

const MAX_SHOWN = 20
const UNITS = ['bytes', 'KiB', 'MiB', 'GiB'] as const

export function sizeWords(bytes: number): string {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), UNITS.length - 1)
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${UNITS[power]}`
}

/** Shows how far a copy is, once it takes longer than a second. */
export function showProgress({ progress }: Terminal, total: number) {
  progress.waitFor('copying')
  return ({ files, bytes }: Pick<Copied, 'files' | 'bytes'>) =>
    progress.update(`copying: ${files} of ${count(total, 'file')}, ${sizeWords(bytes)}`)
}

export function copiedLines(copied: Copied, { notePaint }: Terminal): string[] {
  const { handOff, skipped } = copied
  return [
    ...(handOff.length === 0
      ? []
      : [
          notePaint.yellow(
            'These files are of a kind that tools on your machine execute or obey. Read them first:',
          ),
          ...listed(handOff.map(({ path, kind }) => `  ${visible(path)}  ${notePaint.dim(kind)}`)),
        ]),
    ...(skipped.length === 0
      ? []
      : [
          'Not copied:',
          ...listed(skipped.map(({ path, reason }) => `  ${visible(path)}: ${visible(reason)}`)),
        ]),
  ]
}

function listed(lines: readonly string[]): string[] {
  const left = lines.length - MAX_SHOWN
  return left > 0 ? [...lines.slice(0, MAX_SHOWN), `  … ${left} more`] : [...lines]
}
