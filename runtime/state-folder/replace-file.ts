import { randomUUID } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'

/** Writes a file for its owner alone; readers see the old one or the new one, and a link there is not followed. */
export async function replaceFile(file: string, content: string): Promise<void> {
  const temporary = `${file}.${randomUUID()}`
  try {
    await writeFile(temporary, content, { flag: 'wx', mode: 0o600 })
    await rename(temporary, file)
  } finally {
    await rm(temporary, { force: true })
  }
}
