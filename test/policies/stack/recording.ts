import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Where recordings are; `npm run test:pulumi -- --record` writes them. */
export const FOLDER = fileURLToPath(new URL('recorded', import.meta.url))

/** The engine's data on one resource: its inputs from `Analyze`, the rest from `AnalyzeStack`. */
export interface Recorded {
  readonly urn: string
  readonly type: string
  readonly name: string
  readonly parent?: string
  readonly protect?: true
  readonly ignoreChanges?: readonly string[]
  readonly inputs?: Properties
  readonly outputs?: Properties
  readonly dependencies?: readonly string[]
  readonly origins?: Readonly<Record<string, readonly string[]>>
}
export type Properties = Readonly<Record<string, unknown>>

/** All requests of one run of the real engine to a policy pack, one row per resource. */
export interface Recording {
  readonly cli: string
  readonly recorded: string
  readonly command: string
  readonly resources: readonly Recorded[]
}

export const RECORDINGS = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.replace(/\.json$/, ''))

export const readRecording = (name: string): Recording =>
  JSON.parse(readFileSync(`${FOLDER}/${name}.json`, 'utf8')) as Recording

/** The text of a recording: one resource a line, so that two can be compared. */
export function recordingText({ resources, ...head }: Recording): string {
  const lines = Object.entries(head).map(
    ([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},`,
  )
  const rows = resources.map((one) => `    ${JSON.stringify(one)}`)
  return ['{', ...lines, '  "resources": [', rows.join(',\n'), '  ]', '}', ''].join('\n')
}
