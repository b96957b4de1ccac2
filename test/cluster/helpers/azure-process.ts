import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { AzureConfig } from '../../fakes/azure-main.ts'

const MAIN = fileURLToPath(new URL('../../fakes/azure-main.ts', import.meta.url))

export interface AzureProcess {
  /** The proxy to Entra and the vault. */
  readonly proxy: string
  /** The certificate of the authority to trust. */
  readonly authority: string
  stop(): Promise<void>
}

/** Starts the fake Azure as a separate process that ends with this process. */
export async function startAzureProcess(config: AzureConfig): Promise<AzureProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-azure-process-'))
  const file = join(folder, 'config.json')
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 })
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, file], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const ended = exited.then(([code]) => Promise.reject(new Error(`the test's Azure ended with ${code}`)))
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended])
  ended.catch(() => undefined)
  return {
    ...(JSON.parse(String(line)) as { proxy: string; authority: string }),
    stop: async () => {
      child.stdin.end()
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
