import { readFileSync } from 'node:fs'

export type Label = 'dangerous' | 'harmless'
export type Part = 'dev' | 'held-out'

/** One labelled command line, and the family that it belongs to. */
export interface LabelledLine {
  readonly family: string
  readonly text: string
}

const FAMILY = '# family: '

/** A heading, a command of several lines between `<<<` and `>>>`, or a command of one line. */
const ENTRY = /^# family: (.*)$|^<<<\n([\s\S]*?)\n>>>$|^(.+)$/gm

export function parseLines(text: string): LabelledLine[] {
  let family = ''
  return [...text.matchAll(ENTRY)].flatMap(([, heading, several, one]) => {
    if (heading === undefined) return [{ family, text: several ?? one ?? '' }]
    family = heading
    return []
  })
}

/** The reverse of `parseLines`. */
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

/** All lines of one label and part, those written by hand and those generated. */
export const readLines = (label: Label, part: Part): LabelledLine[] =>
  [`${label}.${part}`, `${label}.${part}.generated`].flatMap((name) =>
    parseLines(readFileSync(fileOf(name), 'utf8')),
  )
