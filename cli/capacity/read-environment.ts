import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { usageError } from '../cli-error.ts'

const FOLDER = 'environments'

/** Reads an environment by name or path. The error lists every mistake with its file and key. */
export function readEnvironment(wanted: string, cwd: string): Environment {
  const path = /[/.]/.test(wanted) ? wanted : join(FOLDER, `${wanted}.json`)
  const loaded = loadEnvironment(basename(path, '.json'), readText(resolve(cwd, path), path, cwd))
  if (loaded.ok) return loaded.environment
  throw usageError(
    loaded.mistakes.map((mistake) => `${path}: ${mistake}`).join('\n'),
    'Correct these keys. The section infra is written by its script; do not edit it.',
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
    ? `Environments here: ${names.join(', ')}.`
    : `Run it in the folder that has ${FOLDER}/, or give --env the path of a file.`
}
