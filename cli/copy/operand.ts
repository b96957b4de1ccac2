import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, relative, resolve } from 'node:path'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'

/** A path in the workspace of a run or sandbox. */
export type RemotePath = { readonly kind: 'remote'; readonly id: string; readonly path: string }
export type LocalPath = { readonly kind: 'local'; readonly path: string }
export type Operand = RemotePath | LocalPath

/** Like scp, `./` in front makes an operand with a colon a local path. */
export function parseOperand(text: string): Operand {
  const [, id, path] = /^((?:run|sbx)_[^/:]*):(.*)$/s.exec(text) ?? []
  if (id === undefined || path === undefined) return { kind: 'local', path: text }
  return { kind: 'remote', id, path: workspacePath(path) }
}

/** Removes what means nothing: a slash at the end, and `.` between slashes. */
function workspacePath(path: string): string {
  if (path.startsWith('/'))
    throw usageError(`${path}: the path in a run is relative to its workspace, such as RUN:dist/app.js.`)
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  if (names.includes('..')) throw usageError(`${path}: the path in a run must not contain "..".`)
  return names.join('/') || '.'
}

/** A local path as a folder that exists, and names below it that are not followed if they are links. */
export type LocalPlace = { readonly root: string; readonly names: string; readonly shown: string }

/**
 * Splits a path so that links are refused where an agent could have planted them. Below the current folder, no link is
 * followed. Elsewhere, the folder that contains the last name may lie behind links.
 */
export function localPlace(path: string, cwd: string): LocalPlace {
  const absolute = resolve(cwd, path)
  const below = relative(cwd, absolute)
  const isBelow = below !== '' && !below.startsWith('..') && !isAbsolute(below)
  if (isBelow) return { root: realOf(cwd, path), names: below, shown: path }
  if (absolute === cwd) return { root: realOf(cwd, path), names: '.', shown: path }
  if (dirname(absolute) === absolute) throw usageError(`${path} cannot be copied as a whole.`)
  const parent = realOf(dirname(absolute), path)
  if (dirname(parent) === parent) throw usageError(`${path}: copy to or from a folder below ${parent}.`)
  return { root: parent, names: basename(absolute), shown: path }
}

function realOf(folder: string, shown: string): string {
  try {
    return realpathSync(folder)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw usageError(`${shown}: there is no folder ${folder}.`)
    throw usageError(`${shown}: ${folder} cannot be opened.`)
  }
}
