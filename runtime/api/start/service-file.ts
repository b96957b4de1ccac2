import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SERVICE_FILE, type ServiceFile } from '../../../contracts/api-env.ts'
import { replaceFile } from './replace-file.ts'

const fileOf = (stateDir: string) => join(stateDir, SERVICE_FILE)

/** Says, beside the API key, where the service listens, so that clients find it on any port. */
export const writeServiceFile = (stateDir: string, service: ServiceFile): Promise<void> =>
  replaceFile(fileOf(stateDir), `${JSON.stringify(service)}\n`)

export const removeServiceFile = (stateDir: string): Promise<void> => rm(fileOf(stateDir), { force: true })
