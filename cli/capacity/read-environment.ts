import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { usageError } from '../cli-error.ts'

const FOLDER = 'environments'

/** The environment of a name, or of a path: every mistake is told with its file and its key. */
export function readEnvironment(wanted: string, cwd: string): Environment {
  const path = /[/.]/.test(wanted) ? wanted : join(FOLDER, `${wanted}.json`)
  const loaded = loadEnvironment(basename(path, '.json'), readText(resolve(cwd, path), path, cwd))
  if (loaded.ok) return loaded.environment
  throw usageError(
    loaded.mistakes.map((mistake) => `${path}: ${mistake}`).join('\n'),
    'Correct these keys; what infra reports is written there by its script.',
  )
}

function readText(file: string, path: string, cwd: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown'
    if (code === 'ENOENT') throw usageError(`There is no file ${path} in ${cwd}.`, knownEnvironments(cwd))
    throw usageError(
      `${path} cannot be read (${code}).`,
      'Give --env the name of an environment, or its file.',
    )
  }
}

function knownEnvironments(cwd: string): string {
  const folder = resolve(cwd, FOLDER)
  const names = existsSync(folder)
    ? readdirSync(folder)
        .filter((file) => file.endsWith('.json'))
        .map((file) => basename(file, '.json'))
        .sort()
    : []
  return names.length > 0
    ? `These are there: ${names.join(', ')}.`
    : `Run it in the folder that has ${FOLDER}/, or give --env the path of a file.`
}
