import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import type { PrivateFolder } from './private-folder.ts'
import { replaceFile } from './replace-file.ts'

const SERVICE_FILE = 'service.json'

/**
 * Describes the running service of a state folder. Only people read it: no program connects to the URL or socket in it.
 */
const RunningService = z.object({
  pid: z.int().positive(),
  url: z.url({ protocol: /^https?$/ }),
  socket: z.string(),
  /** The folder in which it was started. */
  startedIn: z.string(),
})
export type RunningService = z.infer<typeof RunningService>

const fileOf = (stateDir: string) => join(stateDir, SERVICE_FILE)

/** Shows people which service runs. The file exists while the service runs, and after a crash until the next start. */
export const writeServiceFile = (stateDir: string, service: RunningService): Promise<void> =>
  replaceFile(fileOf(stateDir), `${JSON.stringify(service)}\n`)

export const removeServiceFile = (stateDir: string): Promise<void> => rm(fileOf(stateDir), { force: true })

export function readServiceFile(folder: Pick<PrivateFolder, 'readFile'>): RunningService | undefined {
  const text = folder.readFile(SERVICE_FILE)
  if (text === undefined) return undefined
  try {
    return RunningService.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
