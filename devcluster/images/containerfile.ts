import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ImageName } from '../../images/contents.ts'
import { HarnessError } from '../harness-error.ts'
import type { ImageSpec } from './image-spec.ts'

const FOLDER = resolve(import.meta.dirname, '../../images')

export interface Instruction {
  readonly word: string
  readonly rest: string
}

/** The instructions of a Containerfile. A line that ends with a backslash continues on the next line. */
export function instructionsOf(name: ImageName): Instruction[] {
  return readFileSync(resolve(FOLDER, `${name}.Containerfile`), 'utf8')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ word: line.split(' ')[0] ?? '', rest: line.slice(line.indexOf(' ') + 1) }))
}

/** How a container of an image starts: read from its Containerfile, so that local images cannot differ from built ones. */
export function imageConfig(
  name: ImageName,
): Required<Pick<ImageSpec, 'entrypoint' | 'environment' | 'user' | 'workingFolder'>> {
  const all = instructionsOf(name)
  const last = all.slice(all.findLastIndex(({ word }) => word === 'FROM'))
  const values = (word: string) => last.filter((one) => one.word === word).map(({ rest }) => rest)
  const only = (word: string): string => {
    const [value, ...others] = values(word)
    if (value === undefined || others.length > 0)
      throw new HarnessError(`images/${name}.Containerfile needs exactly one ${word} in its last stage`)
    return value
  }
  return {
    user: only('USER'),
    workingFolder: only('WORKDIR'),
    entrypoint: JSON.parse(only('ENTRYPOINT')) as string[],
    environment: Object.fromEntries(values('ENV').map((pair) => pair.split('=', 2) as [string, string])),
  }
}
