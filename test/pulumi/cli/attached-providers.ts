import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ROOT } from '../helpers/stack-file.ts'

const MAIN = join(ROOT, 'test/fakes/pulumi/main.ts')
export const PROVIDERS = ['azure-native', 'kubernetes'] as const

async function start(name: string, cloud: string) {
  const child = spawn(process.execPath, [MAIN, name, cloud], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`the stand-in for ${name} ended`)))
  const lines = createInterface({ input: child.stdout })
  const [port] = (await Promise.race([once(lines, 'line'), ended])) as [string]
  ended.catch(() => undefined)
  return { name, child, port }
}
const isAlive = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null
async function stop({ child }: { child: ChildProcess }): Promise<void> {
  if (!isAlive(child)) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

/**
 * Runs the fake providers in separate processes over one cloud. Like Azure, they outlive the engine. They may crash.
 */
export async function attachProviders(cloud: string) {
  let running = await Promise.all(PROVIDERS.map((name) => start(name, cloud)))
  return {
    /** Value of `PULUMI_DEBUG_PROVIDERS`. Restarts crashed providers first. */
    async attachment(): Promise<string> {
      running = await Promise.all(running.map((one) => (isAlive(one.child) ? one : start(one.name, cloud))))
      return running.map(({ name, port }) => `${name}:${port}`).join(',')
    },
    isAlive: (name: (typeof PROVIDERS)[number]) =>
      running.some((one) => one.name === name && isAlive(one.child)),
    async restart(): Promise<void> {
      await Promise.all(running.map(stop))
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all(running.map(stop))),
  }
}
