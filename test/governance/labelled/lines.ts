import { readFileSync } from 'node:fs'

export type Label = 'dangerous' | 'harmless'
export type Part = 'dev' | 'held-out'

/** A labelled command line and its family. */
export interface LabelledLine {
  readonly family: string
  readonly text: string
}

const FAMILY = '# family: '

/** A heading, a multi-line command between `<<<` and `>>>`, or a one-line command. */
const ENTRY = /^# family: (.*)$|^<<<\n([\s\S]*?)\n>>>$|^(.+)$/gm

export function parseLines(text: string): LabelledLine[] {
  let family = ''
  return [...text.matchAll(ENTRY)].flatMap(([, heading, several, one]) => {
    if (heading === undefined) return [{ family, text: several ?? one ?? '' }]
    family = heading
    return []
  })
}

export function formatLines(lines: readonly LabelledLine[]): string {
  let family = ''
  let text = ''
  for (const line of lines) {
    if (line.family !== family) text += `${FAMILY}${line.family}\n`
    family = line.family
    text += line.text.includes('\n') ? `<<<\n${line.text}\n>>>\n` : `${line.text}\n`
  }
  return text
}

export const fileOf = (name: string): URL => new URL(`./${name}.txt`, import.meta.url)

/** Reads all lines of one label and part, hand-written and generated. */
export const readLines = (label: Label, part: Part): LabelledLine[] =>
  [`${label}.${part}`, `${label}.${part}.generated`].flatMap((name) =>
    parseLines(readFileSync(fileOf(name), 'utf8')),
  )
