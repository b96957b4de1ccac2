import { isAbsolute, join, resolve } from 'node:path'
import type { EnvSource } from '../kit/parse-env.ts'

/** The name of our folders below the XDG base directories. */
const NAME = 'agentweaver'

/** In the state folder: what runs on folders of this machine work with until their results are stored. */
export const WORKSPACES_FOLDER = 'workspaces'

type Where = { readonly env: EnvSource; readonly home: string }

/** A relative value is invalid and ignored, as the XDG specification requires. */
function baseFolder({ env, home }: Where, variable: string, preset: string): string {
  const given = env[variable]
  return given !== undefined && isAbsolute(given) ? given : join(home, preset)
}

/** Where a service keeps its store and keys if no setting names another folder. */
export const defaultStateDir = (where: Where): string =>
  join(baseFolder(where, 'XDG_STATE_HOME', '.local/state'), NAME)

/** The effective state folder: the configured one, otherwise the user's own. */
export const stateDirOf = ({ cwd, ...where }: Where & { readonly cwd: string }): string => {
  const named = where.env['AGENTWEAVER_STATE_DIR']
  return named ? resolve(cwd, named) : defaultStateDir(where)
}

/** The user's own configuration, with the API keys that `agentweaver login` keeps. */
export const configDirOf = (where: Where): string =>
  join(baseFolder(where, 'XDG_CONFIG_HOME', '.config'), NAME)
